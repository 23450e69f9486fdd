#pragma once
// Memory nodes (NUMA): processors that are near one part of the memory. A thread reads its own
// node's memory faster than another's. So threads stay on a node, data that one thread reads often
// is allocated there, and data that all read is interleaved over all nodes.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// Returns "0-3,8" as numbers; empty for another format. (It is that of /sys and of cpusets.)
std::vector<int> parse_number_list(std::string_view text);

/// A memory node with its processors.
struct MemoryNode {
  int number = 0;
  std::vector<int> cpus;  // that this process may use when it starts
};
/// Returns the nodes with a processor for this process, by number; empty where the system names
/// none. `folder` replaces /sys/devices/system/node.
std::vector<MemoryNode> memory_nodes(const std::string& folder = "");

/// Returns the node (an index) of each worker of a pool: neighbours share one, in proportion to
/// processors.
std::vector<std::size_t> nodes_of_workers(const std::vector<MemoryNode>& nodes, int workers);

/// The nodes that the workers of a pool run on. With one node, or fewer workers than nodes, nothing
/// is bound. All of it is a request, which a system may refuse without harm. HOLDFAST_TEST_NODES
/// names a folder that replaces the system's.
class WorkerNumaNodes {
 public:
  explicit WorkerNumaNodes(int workers);
  /// Binds the calling thread, which is this worker, to its node. Cheap when it is bound already.
  void enter(int worker) const {
    if (!node_of_.empty()) settle(node_of_[static_cast<std::size_t>(worker)]);
  }
  /// Interleaves memory that all workers use over all nodes. Called before the memory is touched.
  void spread(void* at, std::size_t bytes) const;

 private:
  void settle(std::size_t node) const;
  std::vector<MemoryNode> nodes_;
  std::vector<std::size_t> node_of_;  // by worker; empty: there is one node
};

}  // namespace holdfast
