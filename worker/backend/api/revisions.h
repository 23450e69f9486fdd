#pragma once
// Which kernels revisions a program has.

#include <string>

namespace holdfast::backend {

/// Backends that are built in, each with its kernels revision, as in a numerics class: "cpu/r4
/// opencl/r2".
std::string kernels_revisions();

}  // namespace holdfast::backend
