#include "shared/base/memory_nodes.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int kNodesMost = 1024;
constexpr int kInterleave = 3;  // MPOL_INTERLEAVE of <linux/mempolicy.h>

/// The process's affinity before any thread is bound to a node: new threads inherit it.
const cpu_set_t g_allowed = [] {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
  return set;
}();

bool is_allowed(int cpu) {
  return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &g_allowed);
}

bool read_number(std::string_view text, int* out) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *out);
  return r.ec == std::errc() && r.ptr == text.data() + text.size() && *out >= 0;
}

/// Parses N or FIRST-LAST and appends its numbers; false if it is neither, or too long.
bool append_numbers(std::string_view part, std::vector<int>& out) {
  const std::size_t dash = part.find('-');
  int first = 0;
  if (!read_number(part.substr(0, dash), &first)) return false;
  int last = first;
  if (dash != std::string_view::npos && !read_number(part.substr(dash + 1), &last)) return false;
  if (last < first || last - first >= CPU_SETSIZE) return false;
  for (int i = first; i <= last; ++i) out.push_back(i);
  return true;
}

}  // namespace

std::vector<int> parse_number_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::vector<int> out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (!append_numbers(part, out)) return {};
  }
  return out;
}

std::vector<MemoryNode> memory_nodes(const std::string& folder) {
  std::vector<MemoryNode> nodes;
  std::error_code failed;
  const fs::path from = folder.empty() ? "/sys/devices/system/node" : folder;
  for (const auto& entry : fs::directory_iterator(from, failed)) {
    const std::string name = entry.path().filename().string();
    MemoryNode node;
    if (!name.starts_with("node") || !read_number(name.substr(4), &node.number)) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    std::getline(file, list);
    for (const int cpu : parse_number_list(list)) {
      if (is_allowed(cpu)) node.cpus.push_back(cpu);
    }
    if (!node.cpus.empty() && node.number < kNodesMost) nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const MemoryNode& a, const MemoryNode& b) { return a.number < b.number; });
  return nodes;
}

std::vector<std::size_t> nodes_of_workers(const std::vector<MemoryNode>& nodes, int workers) {
  std::size_t all = 0;
  for (const MemoryNode& node : nodes) all += node.cpus.size();
  std::vector<std::size_t> out;
  for (int worker = 0; worker < workers; ++worker) {
    // The processor in the middle of this worker's share of them.
    std::size_t cpu =
        (2 * static_cast<std::size_t>(worker) + 1) * all / (2 * static_cast<std::size_t>(workers));
    std::size_t node = 0;
    while (node + 1 < nodes.size() && cpu >= nodes[node].cpus.size()) {
      cpu -= nodes[node++].cpus.size();
    }
    out.push_back(node);
  }
  return out;
}

WorkerNumaNodes::WorkerNumaNodes(int workers) {
  const char* folder = std::getenv("HOLDFAST_TEST_NODES");
  nodes_ = memory_nodes(folder != nullptr ? folder : "");
  const bool on_each = nodes_.size() > 1 && workers >= static_cast<int>(nodes_.size());
  if (on_each) node_of_ = nodes_of_workers(nodes_, workers);
}

void WorkerNumaNodes::settle(std::size_t node) const {
  static thread_local int at = -1;  // the node's number
  if (at == nodes_[node].number) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : nodes_[node].cpus) CPU_SET(cpu, &set);
  (void)sched_setaffinity(0, sizeof set, &set);
  at = nodes_[node].number;
}

void WorkerNumaNodes::spread(void* at, std::size_t bytes) const {
  if (node_of_.empty() || bytes == 0) return;
  constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
  unsigned long mask[kNodesMost / kBits] = {};
  for (const MemoryNode& node : nodes_) mask[node.number / kBits] |= 1UL << node.number % kBits;
  (void)syscall(SYS_mbind, at, bytes, kInterleave, mask, kNodesMost + 1, 0);
}

}  // namespace holdfast
