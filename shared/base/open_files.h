#pragma once
// Files that are opened to be read, in a process that may lose the right to open any: what it will
// need is opened before and handed out by name afterwards.

#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// A descriptor at the beginning of the file, closed by exec; -1 and errno. A FIFO does not make it
/// wait. After keep_open_files() it is a duplicate of the one that was opened then, so two readers
/// of one file must not take turns; another name is ENOENT.
int open_to_read(const std::string& path);

/// From now on these files alone can be read by open_to_read(), under exactly these names; one that
/// is missing, and a directory, is passed over. Once in a process, before it has threads. kIo
/// if there are more than `most` or too few descriptors.
Result<void> keep_open_files(const std::vector<std::string>& paths, std::size_t most);

}  // namespace holdfast
