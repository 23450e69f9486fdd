#pragma once
// Counts the objects and their bytes by class and by tenant, and refuses growth beyond the bounds.
// Clients' objects have bounds of their own; keys, webhooks and the notes of gateways have a
// reserve that no client can use up.

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

namespace holdfast::daemon {

/// The part of the object store that a kind counts against.
enum class ObjectClass : std::uint8_t {
  kClient,    // files, batches, responses: what clients store
  kOperator,  // keys of both kinds, webhooks and pulls: made and changed by operators alone
  kGateway,   // open batches, deliveries: notes of gateways
};
/// Returns the class of a kind; any kind that is not one of ours is a client's.
ObjectClass object_class(std::string_view kind);

/// A new object, or a change that makes one larger.
struct ObjectGrowth {
  std::string_view kind;
  std::string_view owner;  // empty: no tenant's
  bool fresh = false;
  std::int64_t bytes = 0;
};

/// The counts in memory, in step with the database. Not thread-safe.
class ObjectUse {
 public:
  /// Counts in the objects of the database, by kind and owner.
  void load(const std::vector<store::Store::ObjectGroup>& groups);
  /// Counts objects in, or out with negative numbers.
  void add(std::string_view kind, std::string_view owner, std::int64_t count, std::int64_t bytes);
  /// Returns the refusal if a bound forbids the growth. It tells nothing of other tenants' objects.
  std::optional<wire::Refusal> refuse(const ObjectGrowth& growth, const core::Config& config) const;

 private:
  struct Totals {
    std::int64_t count = 0, bytes = 0;
  };
  std::optional<wire::Refusal> refuse_client(const ObjectGrowth& growth,
                                             const core::Config& config) const;
  std::optional<wire::Refusal> refuse_batch(const ObjectGrowth& growth,
                                            const core::Config& config) const;
  std::optional<wire::Refusal> refuse_tenant_count(const ObjectGrowth& growth,
                                                   const core::Config& config) const;
  std::optional<wire::Refusal> refuse_tenant(const ObjectGrowth& growth,
                                             const core::Config& config) const;
  Totals of_owner(std::string_view owner) const;
  std::int64_t count_of(std::string_view kind, std::string_view owner) const;

  std::array<Totals, 3> classes_;                                // by ObjectClass
  std::map<std::string, Totals, std::less<>> owners_;            // of clients' objects
  std::map<std::pair<std::string, std::string>, Totals> kinds_;  // by kind and owner
};

}  // namespace holdfast::daemon
