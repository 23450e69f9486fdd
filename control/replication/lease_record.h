#pragma once
// The record as a Lease of Kubernetes: holderIdentity is the primary, leaseTransitions the term, an
// annotation the standby in step. resourceVersion makes each change a compare-and-swap:
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/

#include <memory>
#include <string>

#include "control/replication/record.h"

namespace holdfast::replication {

/// A Lease, and the way to its API server.
struct LeaseAddress {
  std::string server;      // "https://HOST:PORT"
  std::string ca_file;     // PEM of its authority
  std::string token_file;  // of the service account; read for each call, as it is renewed
  std::string space, name;
};
/// Reads "k8s://NAMESPACE/NAME"; server, authority and token are those that a pod has. kUsage:
/// another form, or not in a pod.
Result<LeaseAddress> parse_lease_address(const std::string& text);

/// Returns the record at that address.
std::unique_ptr<RecordStore> lease_record(LeaseAddress address);

}  // namespace holdfast::replication
