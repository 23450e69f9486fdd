#pragma once
// Descriptors 0, 1 and 2, and how many there may be.

#include <cstdint>

namespace holdfast {

/// Opens /dev/null on those of stdin, stdout and stderr that are closed. First thing in main:
/// otherwise a database or a socket would become stdout, and be written to by whoever prints.
void open_standard_files();

/// Raises this process's limit of open files to at least `wanted`, as far as it may; what it is
/// then.
std::int64_t raise_open_files(std::int64_t wanted);

}  // namespace holdfast
