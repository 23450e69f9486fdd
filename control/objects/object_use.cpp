#include "control/objects/object_use.h"

#include "control/core/admission.h"

namespace holdfast::daemon {
namespace {

constexpr std::string_view kResponses = "response";
constexpr std::string_view kOpenBatches = "batch.open";

}  // namespace

ObjectClass object_class(std::string_view kind) {
  if (kind == "key" || kind == "peer_key" || kind == "webhook" || kind == "pull") {
    return ObjectClass::kOperator;
  }
  if (kind == kOpenBatches || kind == "blame" || kind.starts_with("webhook."))
    return ObjectClass::kGateway;
  return ObjectClass::kClient;
}

void ObjectUse::load(const std::vector<store::Store::ObjectGroup>& groups) {
  *this = {};
  for (const auto& group : groups) add(group.kind, group.owner, group.count, group.bytes);
}

void ObjectUse::add(std::string_view kind, std::string_view owner, std::int64_t count,
                    std::int64_t bytes) {
  const auto count_in = [&](Totals& totals) {
    totals.count += count;
    totals.bytes += bytes;
  };
  const ObjectClass in = object_class(kind);
  count_in(classes_[static_cast<std::size_t>(in)]);
  if (owner.empty()) return;
  // Names of tenants come from outside, so an entry is erased with its last object.
  const auto of_kind = kinds_.try_emplace({std::string(kind), std::string(owner)}).first;
  count_in(of_kind->second);
  if (of_kind->second.count <= 0) kinds_.erase(of_kind);
  if (in != ObjectClass::kClient) return;
  const auto of_owner = owners_.try_emplace(std::string(owner)).first;
  count_in(of_owner->second);
  if (of_owner->second.count <= 0) owners_.erase(of_owner);
}

ObjectUse::Totals ObjectUse::of_owner(std::string_view owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? Totals{} : found->second;
}

std::int64_t ObjectUse::count_of(std::string_view kind, std::string_view owner) const {
  const auto found = kinds_.find({std::string(kind), std::string(owner)});
  return found == kinds_.end() ? 0 : found->second.count;
}

std::optional<wire::Refusal> ObjectUse::refuse_batch(const ObjectGrowth& growth,
                                                     const core::Config& config) const {
  const std::int64_t open = config.tenant(growth.owner).max_open_batches;
  if (!growth.fresh || growth.kind != kOpenBatches || open <= 0 || growth.owner.empty()) {
    return std::nullopt;
  }
  const std::int64_t have = count_of(growth.kind, growth.owner);
  if (have < open) return std::nullopt;
  return core::refuse_over(
      Errc::kStorageFull, std::to_string(have) + " batches of the tenant have not ended",
      "tenant." + std::string(growth.owner) + ".max_open_batches", have + 1, open);
}

std::optional<wire::Refusal> ObjectUse::refuse(const ObjectGrowth& growth,
                                               const core::Config& config) const {
  const ObjectClass in = object_class(growth.kind);
  if (in == ObjectClass::kClient) return refuse_client(growth, config);
  if (auto no = refuse_batch(growth, config)) return no;
  const Totals& now = classes_[static_cast<std::size_t>(in)];
  // An existing object may still be changed (a key revoked) when a new one finds no space.
  const std::int64_t bound = config.objects_reserve_bytes * (growth.fresh ? 1 : 2);
  if (growth.bytes <= 0 || now.bytes + growth.bytes <= bound) return std::nullopt;
  const char* what =
      in == ObjectClass::kOperator ? "keys and webhooks take " : "notes of gateways take ";
  return core::refuse_over(Errc::kStorageFull, what + std::to_string(now.bytes) + " bytes",
                           "objects.reserve_bytes", now.bytes + growth.bytes, bound);
}

std::optional<wire::Refusal> ObjectUse::refuse_client(const ObjectGrowth& growth,
                                                      const core::Config& config) const {
  if (!growth.owner.empty()) {
    if (auto refusal = refuse_tenant(growth, config)) return refusal;
  }
  const Totals& all = classes_[static_cast<std::size_t>(ObjectClass::kClient)];
  const auto full = [](const char* knob, std::int64_t bound) {
    wire::Refusal refusal =
        core::refuse(Errc::kStorageFull, std::string("no room for more objects of clients; ") +
                                             knob + " is " + std::to_string(bound));
    refusal.largest = bound;
    return refusal;
  };
  if (growth.fresh && all.count >= config.objects_max_count) {
    return full("objects.max_count", config.objects_max_count);
  }
  if (growth.bytes > 0 && all.bytes + growth.bytes > config.objects_max_bytes) {
    return full("objects.max_bytes", config.objects_max_bytes);
  }
  return std::nullopt;
}

namespace {

std::optional<wire::Refusal> refuse_above(const std::string& what, const std::string& knob,
                                          std::int64_t needed, std::int64_t bound) {
  if (needed <= bound) return std::nullopt;
  return core::refuse_over(Errc::kStorageFull, "the tenant keeps " + what, knob, needed, bound);
}

/// As refuse_above(), by a knob whose 0 means no bound.
std::optional<wire::Refusal> refuse_by_knob(const std::string& what, const std::string& knob,
                                            std::int64_t needed, std::int64_t bound) {
  if (bound <= 0) return std::nullopt;
  return refuse_above(what, knob, needed, bound);
}

/// The part of `whole` that one tenant may take.
std::int64_t tenant_share(std::int64_t whole, const core::Config& config) {
  return static_cast<std::int64_t>(static_cast<__int128>(whole) *
                                   config.objects_max_tenant_percent / 100);
}

}  // namespace

std::optional<wire::Refusal> ObjectUse::refuse_tenant_count(const ObjectGrowth& growth,
                                                            const core::Config& config) const {
  const std::int64_t count = of_owner(growth.owner).count;
  const core::SubjectConfig bounds = config.tenant(growth.owner);
  const std::string knobs = "tenant." + std::string(growth.owner) + ".";
  const std::string what = std::to_string(count) + " objects";
  if (auto no = refuse_by_knob(what, knobs + "max_objects", count + 1, bounds.max_objects)) {
    return no;
  }
  const std::int64_t share = tenant_share(config.objects_max_count, config);
  if (auto no = refuse_above(what, "its share of objects.max_count", count + 1, share)) return no;
  if (growth.kind != kResponses) return std::nullopt;
  const std::int64_t responses = count_of(kResponses, growth.owner);
  return refuse_by_knob(std::to_string(responses) + " responses", knobs + "max_responses",
                        responses + 1, bounds.max_responses);
}

std::optional<wire::Refusal> ObjectUse::refuse_tenant(const ObjectGrowth& growth,
                                                      const core::Config& config) const {
  if (growth.fresh) {
    if (auto no = refuse_tenant_count(growth, config)) return no;
  }
  if (growth.bytes <= 0) return std::nullopt;
  const std::int64_t bytes = of_owner(growth.owner).bytes;
  const std::string what = std::to_string(bytes) + " bytes of objects";
  const std::int64_t needed = bytes + growth.bytes;
  auto no = refuse_by_knob(what, "tenant." + std::string(growth.owner) + ".max_object_bytes",
                           needed, config.tenant(growth.owner).max_object_bytes);
  if (no) return no;
  return refuse_above(what, "its share of objects.max_bytes", needed,
                      tenant_share(config.objects_max_bytes, config));
}

}  // namespace holdfast::daemon
