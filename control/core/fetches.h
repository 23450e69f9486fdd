#pragma once
// Which nodes fetch the files of which models: those where placement would load a model if its file
// were there. A node learns it by the answer to its report, and says in the next ones how far it
// is.

#include <cstdint>
#include <string>
#include <vector>

#include "control/core/core.h"
#include "control/core/models.h"
#include "control/core/nodes.h"

namespace holdfast::core {

class Loads;
class Registry;

/// Decides which nodes fetch what. Nothing of it is stored: a node goes on from what is on its
/// disk.
class Fetches {
 public:
  Fetches(Core& core, const Registry& registry, const Loads& loads, Nodes& nodes)
      : core_(core), registry_(registry), loads_(loads), nodes_(nodes) {}

  /// Looks at what placement found on each worker. To be called after it.
  void run();

 private:
  void add_lacks(const Model& model, std::vector<NodeLacks>& lacks) const;

  Core& core_;
  const Registry& registry_;
  const Loads& loads_;
  Nodes& nodes_;
};

/// Returns how a node stands to the file of a model that it lacks, for people: "node B fetches it:
/// 40 % (4 of 10 bytes, from node C)".
std::string fetch_text(const Node& node, const std::string& model_sha);

}  // namespace holdfast::core
