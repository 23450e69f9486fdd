#include "control/gateway/responses/conversation.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "control/gateway/common/object_endpoints.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/sse.h"
#include "control/gateway/responses/response_stream.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kTurnsMax = 200;
constexpr std::size_t kReferredMax = 100;  // responses that the items of one turn name
constexpr std::size_t kRememberedMax = 200;
constexpr std::size_t kRememberedBytesMax = std::size_t{4} << 20;  // of one connection

constexpr std::size_t kRememberedByAllMax = std::size_t{32} << 20;

std::size_t bytes_of(const PastTurn& turn) {
  return turn.id.size() + turn.previous.size() + turn.items.size() + turn.output.size();
}

using Found = std::function<void(std::optional<PastTurn>)>;

/// Finds the end of a stored response whose request has ended; null if it has not. Runs on the
/// SDK's thread.
void find_end(Context& context, const client::Principal& owner, const StoredObject& stored,
              std::function<void(json)> done) {
  const json body = try_parse_json<json>(stored.body);
  if (!body.is_object()) return done({});
  if (body.contains("final")) return done(body["final"]);
  const std::string echo = body.value("echo", json::object()).dump();
  context.client.status_async(
      owner, stored.id,
      [&context, owner, stored, echo, done](const client::Answer<wire::RequestInfo>& answer) {
        const auto* info = std::get_if<wire::RequestInfo>(&answer);
        if (info == nullptr || !wire::is_terminal(info->state)) return done({});
        auto stream =
            std::make_shared<ResponseStream>(decode_shape(info->meta), *info, echo, INT64_MAX);
        client::StreamHandler handler;
        handler.on_event = [stream](const wire::Event& event) { (void)stream->on_event(event); };
        handler.on_fin = [&context, owner, stream, stored, echo,
                          done](const wire::RequestInfo& end) {
          (void)stream->on_fin(end);
          const json document = response_json(end, echo, output_items(stored.id, stream->parts()),
                                              stream->parts().usage);
          store_final_response(context, owner, stored.id, document);
          done(document);
        };
        handler.on_failure = [done](const client::Failure&) { done({}); };
        context.client.open_stream(owner, stored.id, {}, std::move(handler));
      });
}

/// Continues with the response if the owner has it; a failure of the daemon is answered.
void find_turn(Context& context, const ExchangePtr& exchange, const TurnMemoryPtr& memory,
               const std::string& id, Found done) {
  const PastTurn* remembered = memory == nullptr ? nullptr : memory->find(id);
  if (remembered != nullptr) {
    return exchange->post([done = std::move(done), turn = *remembered] { done(turn); });
  }
  const client::Principal owner = exchange->request().from;
  context.object_store->get(
      owner, kResponseKind, id,
      on_strand<ObjectStore::Found>(exchange, [&context, exchange, owner, done = std::move(done)](
                                                  const ObjectStore::Found& found) {
        const json body = found ? try_parse_json<json>(found->body) : json();
        if (!body.is_object()) return done(std::nullopt);
        PastTurn turn{found->id, body.value("previous", ""),
                      body.value("items", json::array()).dump(), ""};
        find_end(context, owner, *found, [exchange, done, turn](const json& end) {
          exchange->post([done, turn, end]() mutable {
            if (end.is_object()) turn.output = end.value("output", json::array()).dump();
            done(std::move(turn));
          });
        });
      }));
}

/// Uses OpenAI's words, for which programs look: they send the whole conversation then.
Response no_previous(const std::string& id) {
  Response response = error_response(
      FieldError{"previous response \"" + id + "\" is not kept here", "previous_response_id"});
  json body = try_parse_json<json>(response.body);
  body["error"]["holdfast_code"] = body["error"]["code"];
  body["error"]["code"] = "previous_response_not_found";
  response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

/// "msg_resp_1", "fc_resp_1_0" → "resp_1"; empty for ids of another form. Items of a response are
/// named after it.
std::string response_named(const std::string& item_id) {
  for (const std::string_view kind : {"msg_", "rs_"}) {
    if (item_id.starts_with(kind)) return item_id.substr(kind.size());
  }
  for (const std::string_view kind : {"fc_", "item_"}) {
    const std::size_t number = item_id.rfind('_');
    if (item_id.starts_with(kind) && number > kind.size()) {
      return item_id.substr(kind.size(), number - kind.size());
    }
  }
  return {};
}

/// The text of each item by its id.
using ItemTexts = std::map<std::string, std::string>;

/// Adds the items of a list. `response`: the response whose input the list is; empty where items
/// have only ids of their own.
void add_items(const std::string& list, const std::string& response, ItemTexts* out) {
  const json items = try_parse_json<json>(list);
  for (std::size_t i = 0; items.is_array() && i < items.size(); ++i) {
    if (!items[i].is_object() || referenced_id(items[i])) continue;
    if (!items[i].contains("id") && response.empty()) continue;
    out->emplace(input_item_id(items[i], response, i),
                 items[i].dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

/// Gathers one conversation.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(Context& context, ExchangePtr exchange, TurnMemoryPtr memory,
            std::function<void(Conversation)> done)
      : context_(context),
        exchange_(std::move(exchange)),
        memory_(std::move(memory)),
        done_(std::move(done)) {}

  void start(const std::string& previous, const std::string& items) {
    items_ = try_parse_json<json>(items);
    go_back(previous);
  }

 private:
  void refuse(const std::string& message, const std::string& param) {
    exchange_->respond(error_response(FieldError{message, param}));
  }

  void go_back(const std::string& previous) {
    if (previous.empty()) return resolve();
    if (newest_first_.size() >= 2 * kTurnsMax) {
      return refuse("the conversation has more than 200 turns before this one",
                    "previous_response_id");
    }
    find_turn(context_, exchange_, memory_, previous,
              [self = shared_from_this(), previous](std::optional<PastTurn> turn) {
                if (!turn) return self->exchange_->respond(no_previous(previous));
                self->add(std::move(*turn));
              });
  }

  void add(PastTurn turn) {
    if (turn.output.empty()) {
      return refuse("previous response \"" + turn.id + "\" has not ended", "previous_response_id");
    }
    bytes_ += turn.output.size() + turn.items.size();
    newest_first_.push_back(std::move(turn.output));
    newest_first_.push_back(std::move(turn.items));
    if (is_too_long("previous_response_id")) return;
    go_back(turn.previous);
  }

  /// Replaces references by the items that they name. Each response is read once.
  void resolve() {
    while (next_ < items_.size()) {
      const std::string name = "input[" + std::to_string(next_) + "]";
      const auto id = referenced_id(items_[next_]);
      if (!id) {
        ++next_;
        continue;
      }
      const std::string response = response_named(*id);
      const bool to_ask = is_request_id(response) && !referred_.contains(response);
      if (to_ask && referred_.size() == kReferredMax) {
        return refuse("'" + name + "' is an item of one response too many: those of " +
                          std::to_string(kReferredMax) + " can be named",
                      name);
      }
      if (to_ask) return refer(response);
      const std::string* text = find_item(*id, response);
      if (text == nullptr) {
        return refuse("no item \"" + *id + "\" is kept here: send the item itself", name);
      }
      bytes_ += text->size();
      if (is_too_long(name)) return;
      items_[next_++] = try_parse_json<json>(*text);
    }
    Conversation all;
    all.before.assign(std::make_move_iterator(newest_first_.rbegin()),
                      std::make_move_iterator(newest_first_.rend()));
    all.items = items_.dump(-1, ' ', false, json::error_handler_t::replace);
    done_(std::move(all));
  }

  void refer(const std::string& response) {
    find_turn(context_, exchange_, memory_, response,
              [self = shared_from_this(), response](std::optional<PastTurn> turn) {
                self->add_referred(response, turn);
              });
  }

  void add_referred(const std::string& response, const std::optional<PastTurn>& turn) {
    ItemTexts& texts = referred_[response];
    if (turn) {
      bytes_ += bytes_of(*turn);
      if (is_too_long("input[" + std::to_string(next_) + "]")) return;
      add_items(turn->output, "", &texts);
      add_items(turn->items, turn->id, &texts);
    }
    resolve();
  }

  /// Finds an item in the response that its id names, else among the conversation's items with ids
  /// that the client chose.
  const std::string* find_item(const std::string& id, const std::string& response) {
    const auto named = referred_.find(response);
    if (named != referred_.end() && named->second.contains(id)) return &named->second.at(id);
    if (!std::exchange(listed_, true)) {
      for (const std::string& list : newest_first_) add_items(list, "", &conversation_texts_);
    }
    const auto found = conversation_texts_.find(id);
    return found == conversation_texts_.end() ? nullptr : &found->second;
  }

  bool is_too_long(const std::string& param) {
    const std::size_t most = context_.params.conversation_bytes;
    if (bytes_ <= most) return false;
    refuse("the conversation has more than " + std::to_string(most) + " bytes", param);
    return true;
  }

  Context& context_;
  ExchangePtr exchange_;
  TurnMemoryPtr memory_;
  std::function<void(Conversation)> done_;
  json items_;            // of the turn
  std::size_t next_ = 0;  // index of the item that is resolved next
  std::vector<std::string> newest_first_;
  std::map<std::string, ItemTexts> referred_;  // by response; empty for one that does not exist
  ItemTexts conversation_texts_;               // of the conversation, once listed_
  bool listed_ = false;
  std::size_t bytes_ = 0;  // of earlier turns and of items that were put in
};

}  // namespace

TurnMemory::~TurnMemory() {
  *total_ -= bytes_;
}

void TurnMemory::forget_oldest() {
  const std::size_t bytes = bytes_of(turns_.front());
  bytes_ -= bytes;
  *total_ -= bytes;
  turns_.pop_front();
}

void TurnMemory::add(PastTurn turn) {
  const std::size_t bytes = bytes_of(turn);
  turns_.push_back(std::move(turn));
  bytes_ += bytes;
  *total_ += bytes;
  const auto too_much = [&] {
    return turns_.size() > kRememberedMax || bytes_ > kRememberedBytesMax ||
           *total_ > kRememberedByAllMax;
  };
  while (!turns_.empty() && too_much()) forget_oldest();
}

const PastTurn* TurnMemory::find(const std::string& id) const {
  const auto at = std::find_if(turns_.rbegin(), turns_.rend(),
                               [&](const PastTurn& turn) { return turn.id == id; });
  return at == turns_.rend() ? nullptr : &*at;
}

void store_final_response(Context& context, const client::Principal& owner, const std::string& id,
                          const json& document) {
  context.object_store->get(
      owner, kResponseKind, id,
      [&context, owner, id, document](client::Answer<ObjectStore::Found> answer) {
        const auto* found = std::get_if<ObjectStore::Found>(&answer);
        if (found == nullptr || !*found) return;
        json body = try_parse_json<json>((*found)->body);
        if (!body.is_object() || body.contains("final")) return;
        body["final"] = document;
        ObjectChange change;
        change.kind = kResponseKind;
        change.id = id;
        change.version = (*found)->version;
        change.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
        context.object_store->put(owner, change, [](const client::Answer<ObjectStore::Put>&) {});
      });
}

void gather_conversation(Context& context, const ExchangePtr& exchange, const TurnMemoryPtr& memory,
                         const std::string& previous, const std::string& items,
                         std::function<void(Conversation)> done) {
  std::make_shared<Gathering>(context, exchange, memory, std::move(done))->start(previous, items);
}

std::optional<std::string> referenced_id(const json& item) {
  if (!item.is_object()) return std::nullopt;
  const json kind = item.value("type", json());
  const bool refers =
      kind == "item_reference" || (kind.is_null() && !item.contains("role") &&
                                   !item.contains("content") && item.contains("id"));
  const json id = item.value("id", json());
  if (!refers || !id.is_string()) return std::nullopt;
  return id.get<std::string>();
}

std::string input_item_id(const json& item, const std::string& response, std::size_t index) {
  const json id = item.is_object() ? item.value("id", json()) : json();
  if (id.is_string()) return id.get<std::string>();
  return "item_" + response + "_" + std::to_string(index);
}

}  // namespace holdfast::gateway
