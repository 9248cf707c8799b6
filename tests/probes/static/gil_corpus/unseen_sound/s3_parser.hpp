#pragma once
// Loops of a parser and of a graph walk: open-looking, all driven by their own progress.
#include <pybind11/pybind11.h>
struct Token { int kind; };
struct Lexer {
    std::string_view text;
    std::size_t at = 0;
    bool next(Token& out) { if (at >= text.size()) return false; out.kind = text[at++]; return true; }
    bool done() const { return at == text.size(); }
};
inline int count_tokens(std::string_view text)
{
    Lexer lexer{text};
    Token token;
    int n = 0;
    while (lexer.next(token)) ++n;
    return n;
}
inline int skip_blanks(const char* p)
{
    const char* begin = p;
    while (*p == ' ' || *p == '\t') ++p;
    return static_cast<int>(p - begin);
}
inline std::vector<int> reach(std::vector<std::vector<int>> const& edges, int from)
{
    std::vector<int> seen, todo{from};
    while (!todo.empty()) {
        int node = todo.back();
        todo.pop_back();
        if (std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
        seen.push_back(node);
        for (int next : edges[node]) todo.push_back(next);
    }
    return seen;
}
inline unsigned gcd(unsigned a, unsigned b) { while (b) { unsigned r = a % b; a = b; b = r; } return a; }
inline void bind_parser(pybind11::module_& m)
{
    m.def("count_tokens", &count_tokens).def("skip_blanks", [](std::string const& s) { return skip_blanks(s.c_str()); });
    m.def("reach", &reach).def("gcd", &gcd);
}
