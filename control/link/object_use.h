#pragma once
// How much objects take, by class and by tenant, and who may take more. Clients' objects have
// bounds of their own; keys, webhooks and the notes of gateways live from a reserve that no client
// can use up.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/core/config.h"
#include "control/store/store.h"
#include "shared/wire/messages.h"

namespace holdfast::link {

enum class ObjectClass : std::uint8_t {
  kClient,    // files, batches, responses: what clients ask to be kept
  kOperator,  // keys and webhooks: made and changed by operators alone
  kGateway,   // open batches, deliveries: what gateways note for themselves
};
ObjectClass object_class(std::string_view kind);

/// A change that makes one object larger, or a new one.
struct ObjectGrowth {
  std::string_view kind;
  std::string_view owner;  // empty: nobody's
  bool fresh = false;
  std::int64_t bytes = 0;
};

class ObjectUse {
 public:
  void load(const std::vector<store::Store::ObjectGroup>& groups);
  /// Counts objects in (or out, with negative numbers).
  void add(std::string_view kind, std::string_view owner, std::int64_t count, std::int64_t bytes);
  /// The typed refusal, if a bound forbids it. What others keep is not told.
  std::optional<wire::Refusal> refuse(const ObjectGrowth& growth, const core::Config& config) const;

 private:
  struct Tally {
    std::int64_t count = 0, bytes = 0;
  };
  std::optional<wire::Refusal> refuse_client(const ObjectGrowth& growth,
                                             const core::Config& config) const;
  std::optional<wire::Refusal> refuse_tenant(const ObjectGrowth& growth,
                                             const core::Config& config) const;
  Tally of_owner(std::string_view owner) const;
  std::int64_t count_of(std::string_view kind, std::string_view owner) const;

  std::array<Tally, 3> classes_;                                // by ObjectClass
  std::map<std::string, Tally, std::less<>> owners_;            // of clients' objects
  std::map<std::pair<std::string, std::string>, Tally> kinds_;  // by kind and owner
};

}  // namespace holdfast::link
