#pragma once
// The caller of the SDK, an argument of every call: a tenant, or every tenant. They are two types,
// so that a call for one tenant cannot reach all because an argument was left out.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::client {

/// The rights that a key gives its owner.
enum class Role : std::uint8_t {
  kClient,   // the work of its tenant alone
  kMetrics,  // the counters alone
  kOperator  // may act for every tenant
};

/// One tenant, by one of its keys.
class Principal {
 public:
  /// Makes a principal. An empty name is the tenant "default": on the wire it stands for all of
  /// them.
  Principal(std::string tenant, std::string key, Role role)
      : tenant_(tenant.empty() ? "default" : std::move(tenant)),
        key_(std::move(key)),
        role_(role) {}
  /// Returns the local user, who can open the sockets of the state directory (the CLI, a program
  /// with the SDK).
  static Principal local(std::string tenant = "default") {
    return {std::move(tenant), {}, Role::kOperator};
  }
  /// Returns the tenant for whom a process continues work: a batch, a delivery.
  static Principal on_behalf_of(std::string tenant) {
    return {std::move(tenant), {}, Role::kClient};
  }

  /// The tenant's name, never empty.
  const std::string& tenant() const { return tenant_; }
  const std::string& key() const { return key_; }  // the key's id; empty = none
  /// The rights of the key; is_operator() for the role that may act for every tenant.
  Role role() const { return role_; }
  bool is_operator() const { return role_ == Role::kOperator; }

 private:
  std::string tenant_;
  std::string key_;
  Role role_;
};

/// Every tenant. Operators alone can make one.
class AllTenants {
 public:
  /// Returns the right of a principal from the network; nullopt if it is not an operator.
  static std::optional<AllTenants> of(const Principal& principal) {
    if (!principal.is_operator()) return std::nullopt;
    return AllTenants(true);
  }
  /// Returns the right of a program on this machine that can open the sockets of the state
  /// directory, for its own work. Never for a request that came over the network.
  static AllTenants local() { return AllTenants(false); }
  /// True for the right of a principal, false for that of a program on this machine.
  bool from_network() const { return from_network_; }

 private:
  explicit AllTenants(bool from_network) : from_network_(from_network) {}
  bool from_network_;
};

/// The argument of most calls: one tenant or every one.
class Caller {
 public:
  Caller(const Principal& principal)
      : tenant_(principal.tenant()), is_operator_(principal.is_operator()) {}
  Caller(AllTenants all) : is_operator_(true), from_network_(all.from_network()) {}

  /// Returns the tenant as it is sent: empty stands for every tenant.
  const std::string& tenant() const { return tenant_; }
  /// True if the caller may act for every tenant; from_network() as in AllTenants.
  bool is_operator() const { return is_operator_; }
  bool from_network() const { return from_network_; }

 private:
  std::string tenant_;
  bool is_operator_;
  bool from_network_ = false;
};

}  // namespace holdfast::client
