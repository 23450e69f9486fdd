#include "control/gateway/http/connection_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "control/gateway/http/server.h"

namespace holdfast::gateway {

std::string counted_address(const std::string& address) {
  in6_addr v6{};
  const std::string plain = address.substr(0, address.find('%'));  // without a zone
  if (inet_pton(AF_INET6, plain.c_str(), &v6) != 1) return address;
  char text[INET6_ADDRSTRLEN];
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    return inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
  }
  std::fill(v6.s6_addr + 8, v6.s6_addr + 16, std::uint8_t{0});
  return std::string(inet_ntop(AF_INET6, &v6, text, sizeof text)) + "/64";
}

bool ConnectionTable::full(const std::string& address, const std::string& tenant) const {
  const auto over = [](const std::map<std::string, int>& counts, const std::string& name,
                       int bound) {
    const auto it = counts.find(name);
    return bound > 0 && it != counts.end() && it->second >= bound;
  };
  return static_cast<int>(open_.size()) - strangers_count_ >= limits_.connections ||
         over(by_address_, address, limits_.connections_per_address) ||
         (!tenant.empty() && over(by_tenant_, tenant, limits_.connections_per_tenant));
}

void ConnectionTable::count(const Entry& entry, int by) {
  const auto add = [by](std::map<std::string, int>& counts, const std::string& name) {
    if ((counts[name] += by) == 0) counts.erase(name);
  };
  add(by_address_, entry.address);
  if (!entry.tenant.empty()) add(by_tenant_, entry.tenant);
}

ConnectionTable::Id ConnectionTable::enter(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (full(address, {})) return 0;
  const Entry& entry = open_[++last_] = {address, {}, false, {}};
  count(entry, 1);
  return last_;
}

ConnectionTable::Id ConnectionTable::enter_stranger(const std::string& address,
                                                    std::shared_ptr<Connection>* gives_way) {
  const std::lock_guard lock(mutex_);
  open_[++last_] = {address, {}, true, {}};
  *gives_way = add_stranger(last_);
  return last_;
}

std::shared_ptr<Connection> ConnectionTable::add_stranger(Id id) {
  std::shared_ptr<Connection> gives_way;
  if (strangers_count_ >= limits_.strangers) {
    const auto most = std::max_element(
        strangers_.begin(), strangers_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const Id oldest = *most->second.begin();
    gives_way = open_.at(oldest).connection.lock();
    drop_stranger(oldest);
    open_.erase(oldest);
  }
  strangers_[open_.at(id).address].insert(id);
  ++strangers_count_;
  return gives_way;
}

void ConnectionTable::drop_stranger(Id id) {
  const auto at = strangers_.find(open_.at(id).address);
  at->second.erase(id);
  if (at->second.empty()) strangers_.erase(at);
  --strangers_count_;
}

void ConnectionTable::set(Id id, std::weak_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  if (const auto it = open_.find(id); it != open_.end()) {
    it->second.connection = std::move(connection);
  }
}

bool ConnectionTable::know(Id id, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  const auto it = open_.find(id);
  if (it == open_.end()) return false;  // it is being closed to make room
  Entry& entry = it->second;
  if (!entry.stranger) return true;
  if (full(entry.address, tenant)) return false;
  drop_stranger(id);
  entry.stranger = false;
  entry.tenant = tenant;
  count(entry, 1);
  return true;
}

std::shared_ptr<Connection> ConnectionTable::forget(Id id) {
  const std::lock_guard lock(mutex_);
  const auto it = open_.find(id);
  if (it == open_.end() || it->second.stranger) return nullptr;
  count(it->second, -1);
  it->second.stranger = true;
  it->second.tenant.clear();
  return add_stranger(id);
}

void ConnectionTable::leave(Id id) {
  const std::lock_guard lock(mutex_);
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  if (it->second.stranger) {
    drop_stranger(id);
  } else {
    count(it->second, -1);
  }
  open_.erase(it);
}

std::vector<std::shared_ptr<Connection>> ConnectionTable::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Connection>> out;
  for (const auto& [id, entry] : open_) {
    if (auto connection = entry.connection.lock()) out.push_back(std::move(connection));
  }
  return out;
}

int ConnectionTable::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(open_.size());
}

}  // namespace holdfast::gateway
