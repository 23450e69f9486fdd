#include "control/link/object_use.h"

#include "control/core/admission.h"

namespace holdfast::link {
namespace {

constexpr std::string_view kResponses = "response";
constexpr std::string_view kOpenBatches = "batch.open";

}  // namespace

ObjectClass object_class(std::string_view kind) {
  if (kind == "key" || kind == "webhook") return ObjectClass::kOperator;
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

std::optional<wire::Refusal> ObjectUse::refuse(const ObjectGrowth& growth,
                                               const core::Config& config) const {
  const ObjectClass in = object_class(growth.kind);
  if (in == ObjectClass::kClient) return refuse_client(growth, config);
  const std::int64_t open = config.tenant(growth.owner).max_open_batches;
  if (growth.fresh && growth.kind == kOpenBatches && open > 0 && !growth.owner.empty()) {
    const std::int64_t have = count_of(growth.kind, growth.owner);
    if (have >= open) {
      return core::refuse_over(
          Errc::kStorageFull, std::to_string(have) + " batches of the tenant have not ended",
          "tenant." + std::string(growth.owner) + ".max_open_batches", have + 1, open);
    }
  }
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

std::optional<wire::Refusal> ObjectUse::refuse_tenant(const ObjectGrowth& growth,
                                                      const core::Config& config) const {
  const Totals usage = of_owner(growth.owner);
  const core::SubjectConfig bounds = config.tenant(growth.owner);
  const std::string knobs = "tenant." + std::string(growth.owner) + ".";
  const auto over = [&](const std::string& what, const std::string& knob, std::int64_t needed,
                        std::int64_t bound) -> std::optional<wire::Refusal> {
    if (needed <= bound) return std::nullopt;
    return core::refuse_over(Errc::kStorageFull, "the tenant keeps " + what, knob, needed, bound);
  };
  const auto share = [&](std::int64_t whole) {
    return static_cast<std::int64_t>(static_cast<__int128>(whole) *
                                     config.objects_max_tenant_percent / 100);
  };
  if (growth.fresh) {
    const std::string what = std::to_string(usage.count) + " objects";
    if (bounds.max_objects > 0) {
      if (auto no = over(what, knobs + "max_objects", usage.count + 1, bounds.max_objects))
        return no;
    }
    const std::int64_t part = share(config.objects_max_count);
    if (auto no = over(what, "its share of objects.max_count", usage.count + 1, part)) return no;
    const std::int64_t responses = count_of(kResponses, growth.owner);
    if (growth.kind == kResponses && bounds.max_responses > 0) {
      auto no = over(std::to_string(responses) + " responses", knobs + "max_responses",
                     responses + 1, bounds.max_responses);
      if (no) return no;
    }
  }
  if (growth.bytes <= 0) return std::nullopt;
  const std::string what = std::to_string(usage.bytes) + " bytes of objects";
  const std::int64_t needed = usage.bytes + growth.bytes;
  if (bounds.max_object_bytes > 0) {
    if (auto no = over(what, knobs + "max_object_bytes", needed, bounds.max_object_bytes))
      return no;
  }
  return over(what, "its share of objects.max_bytes", needed, share(config.objects_max_bytes));
}

}  // namespace holdfast::link
