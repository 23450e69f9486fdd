#include "control/replication/etcd_record.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "control/replication/record_http.h"
#include "shared/base/base64.h"

namespace holdfast::replication {
namespace {

using nlohmann::json;

class EtcdRecord final : public RecordStore {
 public:
  explicit EtcdRecord(EtcdAddress address)
      : address_(std::move(address)), key_(to_base64(address_.key)) {}

  Result<Versioned> read() override {
    HOLDFAST_TRY(const json answer, call("/v3/kv/range", {{"key", key_}}));
    const json pairs = answer.value("kvs", json::array());
    if (!pairs.is_array() || pairs.empty()) return Versioned{};
    const json& pair = pairs[0];
    const bool complete = pair.is_object() && pair.contains("mod_revision") &&
                          pair["mod_revision"].is_string() && pair.contains("value") &&
                          pair["value"].is_string();
    if (!complete) return foreign();
    const auto value = from_base64(pair["value"].get<std::string>());
    const auto record = value ? parse_record(*value) : std::nullopt;
    if (!record) return foreign();
    const std::string revision = pair["mod_revision"].get<std::string>();
    return Versioned{*record, std::strtoll(revision.c_str(), nullptr, 10)};
  }

  Result<bool> write(const Record& record, std::int64_t version) override {
    // A key that does not exist has the revision 0.
    json condition = {{"key", key_},
                      {"target", "MOD"},
                      {"result", "EQUAL"},
                      {"mod_revision", std::to_string(version)}};
    json put = {{"request_put", {{"key", key_}, {"value", to_base64(record_text(record))}}}};
    HOLDFAST_TRY(const json answer, call("/v3/kv/txn", {{"compare", json::array({condition})},
                                                        {"success", json::array({put})}}));
    const auto done = answer.find("succeeded");
    return done != answer.end() && done->is_boolean() && done->get<bool>();
  }

 private:
  Error foreign() const {
    return {Errc::kFileInvalid, "the key " + address_.key +
                                    " of etcd is not a record of this program; name another key "
                                    "with --record"};
  }

  /// Asks the members in turn, the one that answered last first.
  Result<json> call(const char* path, const json& body) {
    std::string why;
    for (std::size_t i = 0; i < address_.urls.size(); ++i) {
      const std::string& url = address_.urls[(first_ + i) % address_.urls.size()];
      auto answer = call_one(url + path, body);
      if (answer) {
        first_ = (first_ + i) % address_.urls.size();
        return answer;
      }
      why += (why.empty() ? "" : "; ") + answer.error().what;
    }
    return Error{Errc::kUnreachable, "the record of the primary: " + why};
  }

  static Result<json> call_one(const std::string& url, const json& body) {
    http::Request request;
    request.method = "POST";
    request.url = url;
    request.body = body.dump();
    request.plain_http = true;
    json answer;
    HOLDFAST_TRY(const int status, exchange_json(std::move(request), answer));
    if (status == 200 && answer.is_object()) return answer;
    return Error{Errc::kUnreachable, url + ": status " + std::to_string(status)};
  }

  EtcdAddress address_;
  std::string key_;
  std::size_t first_ = 0;
};

}  // namespace

Result<EtcdAddress> parse_etcd_address(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return Error{Errc::kUsage, "--record " + text + ": " + why +
                                   "; expected the URLs of etcd's members and a key, for example "
                                   "http://10.0.0.7:2379/holdfast"};
  };
  EtcdAddress address;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t scheme = text.find("://", from);
    if (scheme == std::string::npos) return wrong("no URL");
    const std::string name = text.substr(from, scheme - from);
    if (name != "http" && name != "https") return wrong("\"" + name + "\" is no scheme of etcd");
    const std::size_t end = std::min(text.find_first_of(",/", scheme + 3), text.size());
    if (end == scheme + 3) return wrong("a URL without a host");
    address.urls.push_back(text.substr(from, end - from));
    from = end + 1;
    if (end < text.size() && text[end] == ',') continue;
    if (end < text.size()) address.key = text.substr(end + 1);
    break;
  }
  if (address.key.empty()) return wrong("no key");
  return address;
}

std::unique_ptr<RecordStore> etcd_record(EtcdAddress address) {
  return std::make_unique<EtcdRecord>(std::move(address));
}

}  // namespace holdfast::replication
