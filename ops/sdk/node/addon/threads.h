#pragma once
// Threads for calls that block. libuv's four are for files and names: a few streams that wait would
// stop every other use of them.

#include <functional>

namespace holdfast::node {

/// Runs the task on a thread of its own or on one that has nothing to do; such a thread ends after
/// some seconds. As many run as there are calls that block. Throws std::system_error where the
/// system gives no thread.
void run_on_thread(std::function<void()> task);

}  // namespace holdfast::node
