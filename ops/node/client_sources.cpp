#include "ops/node/client_sources.h"

#include <future>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

Error bad_answer(const std::string& verb) {
  return {Errc::kInvalidRequest, verb + ": the daemon's answer has another form"};
}

/// Reads the answer to node.chunks.
Result<ModelListing> listing_of(const client::OpAnswer& answer) {
  const json document = try_parse_json<json>(answer.text);
  if (!document.is_object()) return bad_answer("node.chunks");
  try {
    ModelListing listing;
    listing.ready = document.at("ready").get<bool>();
    listing.list_source = document.value("list_source", std::string());
    listing.hashed_bytes = document.value("hashed_bytes", std::int64_t{0});
    if (!listing.ready) return listing;
    listing.verified = document.at("verified").get<bool>();
    listing.sources = document.at("sources").get<std::vector<std::string>>();
    listing.range_bytes = document.at("range_bytes").get<std::int64_t>();
    if (listing.range_bytes <= 0) return bad_answer("node.chunks");
    HOLDFAST_TRY(listing.list,
                 model_index::parse_chunk_list(document.at("list").dump(), answer.bytes));
    return listing;
  } catch (const json::exception&) {
    return bad_answer("node.chunks");
  }
}

}  // namespace

Result<client::OpAnswer> call_with_bytes(client::Client& client, const std::string& verb,
                                         const std::string& args, std::string bytes) {
  auto promise = std::make_shared<std::promise<client::Answer<client::OpAnswer>>>();
  auto future = promise->get_future();
  client.op_bytes_async(client::AllTenants::local(), verb, args, std::move(bytes),
                        [promise](client::Answer<client::OpAnswer> answer) {
                          promise->set_value(std::move(answer));
                        });
  auto answer = future.get();
  if (auto* failure = std::get_if<client::Failure>(&answer)) {
    return Error{failure->code, std::move(failure->message)};
  }
  return std::get<client::OpAnswer>(std::move(answer));
}

Result<ModelListing> ClientSources::list(const std::string& sha,
                                         const std::vector<std::string>& not_from) {
  const json args = {{"sha", sha}, {"not_from", not_from}};
  HOLDFAST_TRY(const client::OpAnswer answer, call_with_bytes(client_, "node.chunks", args.dump()));
  return listing_of(answer);
}

void ClientSources::read(const ModelRange& range, std::function<void(Result<std::string>)> done) {
  json args = {{"sha", range.sha},
               {"file", range.file},
               {"offset", range.offset},
               {"bytes", range.bytes},
               {"source", range.source}};
  {
    const std::lock_guard lock(receipts_->mutex);
    args["receipts"] = std::exchange(receipts_->fresh, {});
  }
  client_.op_bytes_async(
      client::AllTenants::local(), "node.range", args.dump(), {},
      [receipts = receipts_, done = std::move(done)](client::Answer<client::OpAnswer> answer) {
        if (auto* failure = std::get_if<client::Failure>(&answer)) {
          return done(Error{failure->code, std::move(failure->message)});
        }
        auto& given = std::get<client::OpAnswer>(answer);
        const json document = try_parse_json<json>(given.text);
        if (document.is_object() && document.contains("receipt") &&
            document["receipt"].is_string()) {
          const std::lock_guard lock(receipts->mutex);
          receipts->fresh.push_back(document["receipt"].get<std::string>());
        }
        done(std::move(given.bytes));
      });
}

}  // namespace holdfast::cli
