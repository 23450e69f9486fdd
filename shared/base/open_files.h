#pragma once
// Files that a process reads after it has lost the right to open any: they are opened before and
// found by name.

#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// Returns a descriptor at the beginning of the file, closed by exec; -1 and errno on failure. Does
/// not wait for a FIFO. After preopen_files() it is a duplicate of the descriptor that was opened
/// then, so two readers must not interleave reads of one file; another name is ENOENT.
int open_to_read(const std::string& path);

/// Opens these files; from then on open_to_read() reads them alone, under exactly these names.
/// Missing files and directories are passed over. Called once in a process, before it has threads.
/// kIo if there are more than `most` or too few descriptors.
Result<void> preopen_files(const std::vector<std::string>& paths, std::size_t most);

}  // namespace holdfast
