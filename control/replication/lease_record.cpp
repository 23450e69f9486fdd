#include "control/replication/lease_record.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/replication/record_http.h"
#include "shared/base/environment.h"

namespace holdfast::replication {
namespace {

using nlohmann::json;

constexpr const char* kScheme = "k8s://";
constexpr const char* kAnnotation = "holdfast/in-step";
// Kubernetes gives an object another version only if it says something else.
constexpr const char* kAfterAnnotation = "holdfast/after-version";
constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";

std::string text_at(const json& object, const char* pointer) {
  const json::json_pointer path(pointer);
  if (!object.contains(path) || !object.at(path).is_string()) return {};
  return object.at(path).get<std::string>();
}

class LeaseRecord final : public RecordStore {
 public:
  explicit LeaseRecord(LeaseAddress address) : address_(std::move(address)) {}

  Result<Versioned> read() override {
    json lease;
    HOLDFAST_TRY(const int status, call("GET", "/" + address_.name, {}, lease));
    if (status == 404) return Versioned{};
    if (status != 200) return refused(status, lease);
    Versioned now;
    now.version = std::strtoll(text_at(lease, "/metadata/resourceVersion").c_str(), nullptr, 10);
    now.record.primary = text_at(lease, "/spec/holderIdentity");
    now.record.in_step = text_at(lease, "/metadata/annotations/holdfast~1in-step");
    const json::json_pointer term("/spec/leaseTransitions");
    const bool counted = lease.contains(term) && lease.at(term).is_number_unsigned();
    if (!counted || now.version <= 0 || now.record.primary.empty()) {
      return Error{Errc::kFileInvalid, "the Lease " + address_.space + "/" + address_.name +
                                           " is not a record of this program; name another one "
                                           "with --record"};
    }
    now.record.term = lease.at(term).get<std::uint64_t>();
    return now;
  }

  Result<bool> write(const Record& record, std::int64_t version) override {
    const json lease = {
        {"apiVersion", "coordination.k8s.io/v1"},
        {"kind", "Lease"},
        {"metadata", metadata(record, version)},
        {"spec", {{"holderIdentity", record.primary}, {"leaseTransitions", record.term}}}};
    json answer;
    HOLDFAST_TRY(const int status, version == 0 ? call("POST", "", lease, answer)
                                                : call("PUT", "/" + address_.name, lease, answer));
    if (status == 409) return false;
    if (status == 200 || status == 201) return true;
    return refused(status, answer);
  }

 private:
  json metadata(const Record& record, std::int64_t version) const {
    json data = {{"name", address_.name},
                 {"namespace", address_.space},
                 {"annotations",
                  {{kAnnotation, record.in_step}, {kAfterAnnotation, std::to_string(version)}}}};
    if (version != 0) data["resourceVersion"] = std::to_string(version);
    return data;
  }

  Error refused(int status, const json& answer) const {
    std::string why = text_at(answer, "/message");
    if (status == 403) why += "; its service account needs get, create and update of leases";
    return {Errc::kUnreachable, "the Lease " + address_.space + "/" + address_.name + ": status " +
                                    std::to_string(status) + " " + why};
  }

  /// The status; `answer` gets the body.
  Result<int> call(const char* method, const std::string& path, const json& body, json& answer) {
    http::Request request;
    request.method = method;
    request.url = address_.server + "/apis/coordination.k8s.io/v1/namespaces/" + address_.space +
                  "/leases" + path;
    if (!body.is_null()) request.body = body.dump();
    request.headers = {"Authorization: Bearer " + token()};
    request.ca_file = address_.ca_file;
    return exchange_json(std::move(request), answer);
  }

  std::string token() const {
    std::ifstream file(address_.token_file);
    std::string token((std::istreambuf_iterator<char>(file)), {});
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
    return token;
  }

  LeaseAddress address_;
};

}  // namespace

Result<LeaseAddress> parse_lease_address(const std::string& text) {
  const std::string rest = text.starts_with(kScheme) ? text.substr(6) : std::string();
  const std::size_t slash = rest.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == rest.size()) {
    return Error{Errc::kUsage, "--record " + text + ": expected k8s://NAMESPACE/NAME of a Lease"};
  }
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  if (host.empty()) {
    return Error{Errc::kUsage,
                 "--record " + text +
                     ": this is no pod of Kubernetes (KUBERNETES_SERVICE_HOST is not set); use "
                     "etcd, as in http://10.0.0.7:2379/holdfast"};
  }
  LeaseAddress address;
  const bool v6 = host.find(':') != std::string::npos;
  address.server =
      "https://" + (v6 ? "[" + host + "]" : host) + ":" + environment("KUBERNETES_SERVICE_PORT");
  address.ca_file = std::string(kAccount) + "ca.crt";
  address.token_file = std::string(kAccount) + "token";
  address.space = rest.substr(0, slash);
  address.name = rest.substr(slash + 1);
  return address;
}

std::unique_ptr<RecordStore> lease_record(LeaseAddress address) {
  return std::make_unique<LeaseRecord>(std::move(address));
}

}  // namespace holdfast::replication
