#include "control/core/census.h"

#include "shared/base/check.h"

namespace holdfast::core {

void Census::add(Tally& tally, const Tally& change, int sign) {
  const auto one = [sign](std::int64_t& value, std::int64_t by) {
    value += sign * by;
    CHECK_MSG(value >= 0, "nothing leaves that did not come");
  };
  one(tally.requests, change.requests);
  one(tally.waiting, change.waiting);
  one(tally.bytes, change.bytes);
  one(tally.running, change.running);
  one(tally.pages, change.pages);
}

void Census::add(Tallies& tallies, const std::string& name, const Tally& change, int sign) {
  const auto it = tallies.try_emplace(name).first;
  add(it->second, change, sign);
  if (it->second == Tally()) tallies.erase(it);  // names are the clients' choice
}

const Tally& Census::of(const Tallies& tallies, const std::string& name) {
  static const Tally none;
  const auto it = tallies.find(name);
  return it == tallies.end() ? none : it->second;
}

void Census::count_request(const RequestRow& row, std::int64_t bytes, int sign) {
  const Tally change{1, 0, bytes, 0, 0};
  add(all_, change, sign);
  add(tenants_, row.tenant, change, sign);
  add(models_, row.model, change, sign);
}

void Census::count_waiting(const RequestRow& row, int sign) {
  const Tally change{0, 1, 0, 0, 0};
  add(all_, change, sign);
  add(tenants_, row.tenant, change, sign);
  add(models_, row.model, change, sign);
}

void Census::count_running(const RequestRow& row, const std::string& worker_key, std::int64_t pages,
                           int sign) {
  const Tally change{0, 0, 0, 1, pages};
  add(all_, change, sign);
  add(tenants_, row.tenant, change, sign);
  add(models_, row.model, change, sign);
  add(workers_, worker_key, change, sign);
}

}  // namespace holdfast::core
