#pragma once
// The kernels revision as the program that is running states it.

namespace holdfast::cpu {

/// Returns kKernelsRev (executor.h), a part of the numerics class. In a file of its own, so that a
/// test can link a worker of another revision.
const char* kernels_revision();

}  // namespace holdfast::cpu
