#pragma once
// Memory nodes (NUMA): processors that are near one part of the memory. A thread reads its own
// node's memory faster than another's, so threads stay on a node, what each of them reads again and
// again comes into being there, and what all of them read lies on all nodes in turn.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// "0-3,8" as numbers; empty where it is no such list (the format of /sys and of cpusets).
std::vector<int> parse_number_list(std::string_view text);

struct MemoryNode {
  int number = 0;
  std::vector<int> cpus;  // that this process could use when it started
};
/// Those with a processor for this process, by number; empty where the system names none. `folder`:
/// another one than /sys/devices/system/node.
std::vector<MemoryNode> memory_nodes(const std::string& folder = "");

/// The node (an index) of each worker of a pool: neighbours together, in proportion to processors.
std::vector<std::size_t> nodes_of_workers(const std::vector<MemoryNode>& nodes, int workers);

/// Where the workers of a pool run. With one node, or fewer workers than nodes: anywhere, and
/// nothing is done. All of it is a wish, which a system may refuse without harm.
/// HOLDFAST_TEST_NODES names a folder to be taken for that of the system.
class WorkerPlaces {
 public:
  explicit WorkerPlaces(int workers);
  /// The calling thread is this worker: it stays on its node from now on. Cheap when it does.
  void enter(int worker) const {
    if (!node_of_.empty()) settle(node_of_[static_cast<std::size_t>(worker)]);
  }
  /// Memory that all workers use, before it is touched: its pages come from all nodes in turn.
  void spread(void* at, std::size_t bytes) const;

 private:
  void settle(std::size_t node) const;
  std::vector<MemoryNode> nodes_;
  std::vector<std::size_t> node_of_;  // by worker; empty: there is one node
};

}  // namespace holdfast
