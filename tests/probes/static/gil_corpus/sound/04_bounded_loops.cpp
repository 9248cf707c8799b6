// Loops that look open but end by their own work.
#include <pybind11/pybind11.h>
struct Node { int value; Node* next; };
int length(Node* node) {
    int n = 0;
    while (node != nullptr) { ++n; node = node->next; }
    return n;
}
int drain(std::vector<int>& heap) {
    int sum = 0;
    while (!heap.empty()) { sum += heap.back(); heap.pop_back(); }
    return sum;
}
int find(const int* values, int n) {
    int i = 0;
    while (true) {
        if (values[i] == 0) break;
        if (++i >= n) break;
    }
    return i;
}
double root(double x) {
    double guess = x, before;
    do { before = guess; guess = 0.5 * (guess + x / guess); } while (std::abs(guess - before) > 1e-12);
    return guess;
}
PYBIND11_MODULE(ext, m) {
    m.def("length", [](std::uintptr_t p) { return length(reinterpret_cast<Node*>(p)); });
    m.def("drain", &drain);
    m.def("find", [](std::uintptr_t p, int n) { return find(reinterpret_cast<int*>(p), n); });
    m.def("root", &root);
}
