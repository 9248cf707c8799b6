// The loop hides in a macro.
#include <pybind11/pybind11.h>
#define SPIN_UNTIL(cond) \
    do {                 \
        while (!(cond)) { \
        }                \
    } while (0)
struct Slot {
    volatile int state;
};
static Slot* slots;
int acquire(int index) {
    SPIN_UNTIL(slots[index].state == 2);  // FAULT acquire wait-with-gil
    return index;
}
PYBIND11_MODULE(ext, m) { m.def("acquire", acquire); }
