#pragma once
// Descriptors 0, 1 and 2, and the limit of open files.

#include <cstdint>

namespace holdfast {

/// Opens /dev/null on those of stdin, stdout and stderr that are closed. Called first in main():
/// otherwise a database or a socket becomes stdout, and every print writes to it.
void open_standard_files();

/// Raises this process's limit of open files to at least `minimum`, as far as it may. Returns the
/// limit.
std::int64_t raise_open_files(std::int64_t minimum);

}  // namespace holdfast
