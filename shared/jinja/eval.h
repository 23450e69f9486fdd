#pragma once
// Runs a parsed template under bounds on steps, output and depth.

#include <cstdint>
#include <string>

#include "shared/jinja/ast.h"

namespace holdfast::text::jinja {

/// The bounds of one rendering.
struct Bounds {
  std::uint64_t steps = 4'000'000;
  std::uint64_t output_bytes = 8u << 20;
  int depth = 100;  // nesting of macro calls
};

/// Returns the rendered text. `globals` are the template's variables. Throws TemplateError with a
/// line.
std::string render(const Body& body, const Dict& globals, const std::string& date,
                   const Bounds& bounds);

}  // namespace holdfast::text::jinja
