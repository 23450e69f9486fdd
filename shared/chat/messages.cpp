#include "shared/chat/messages.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace holdfast::chat {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kRoleBytes = 64;

/// A fault in the messages; thrown and caught in this file.
struct Wrong {
  MessageFault fault;
};

[[noreturn]] void fail(std::string where, std::string what) {
  throw Wrong{{std::move(where), std::move(what)}};
}

std::string at(const std::string& where, std::size_t i) {
  return where + "[" + std::to_string(i) + "]";
}

/// Returns nullptr if the member is missing or null.
const json* member(const json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

/// Returns nullptr if the member is missing or is not text.
const std::string* text_member(const json& object, const char* name) {
  const json* value = member(object, name);
  return value == nullptr ? nullptr : value->get_ptr<const std::string*>();
}

void drop_nulls(json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) names.push_back(name);
  }
  for (const std::string& name : names) object.erase(name);
}

void add_line(std::string& text, std::string_view line) {
  if (!text.empty() && !line.empty()) text += "\n";
  text += line;
}

/// The texts of a message's parts: those for the reader, and the model's thinking.
struct Texts {
  std::string content, reasoning;
};

/// Adds the text of a part: the first of the members that is a string. null counts as no text.
void take_text(const json& part, const std::string& where, std::initializer_list<const char*> names,
               std::string& into) {
  for (const char* name : names) {
    if (const std::string* text = text_member(part, name)) return add_line(into, *text);
  }
  for (const char* name : names) {
    if (part.contains(name) && part[name].is_null()) return;
  }
  fail(where + "." + *names.begin(), "is required: a string");
}

/// Returns the "type" of a part; one without is a text.
std::string type_of_part(const json& part, const std::string& where) {
  const json* kind = member(part, "type");
  if (kind == nullptr) return "text";
  if (!kind->is_string()) fail(where + ".type", "must be a string");
  return kind->get<std::string>();
}

void read_part(const json& part, const std::string& where, Texts& out) {
  if (part.is_string()) return add_line(out.content, part.get_ref<const std::string&>());
  if (!part.is_object()) fail(where, "must be an object or a text");
  const std::string type = type_of_part(part, where);
  if (type == "text" || type == "input_text" || type == "output_text") {
    take_text(part, where, {"text"}, out.content);
  } else if (type == "refusal") {
    take_text(part, where, {"refusal", "text"}, out.content);
  } else if (type == "thinking" || type == "reasoning") {
    take_text(part, where, {"thinking", "reasoning", "text"}, out.reasoning);
  } else {
    fail(where + ".type",
         "\"" + type.substr(0, kRoleBytes) +
             "\" is not read by this server: parts may be \"text\", \"refusal\" or \"thinking\"");
  }
}

void read_parts(const json& content, const std::string& where, Texts& out) {
  if (content.is_string()) {
    out.content = content.get<std::string>();
  } else if (content.is_array()) {
    for (std::size_t i = 0; i < content.size(); ++i) read_part(content[i], at(where, i), out);
  } else if (content.is_object()) {
    read_part(content, where, out);
  } else {
    fail(where, "must be a string or an array of parts");
  }
}

void read_content(json& message, const std::string& where) {
  Texts texts;
  if (const json* content = member(message, "content")) {
    read_parts(*content, where + ".content", texts);
  }
  // A refusal is the answer where the model said nothing else.
  if (const std::string* refusal = text_member(message, "refusal")) {
    add_line(texts.content, *refusal);
  }
  message.erase("refusal");
  message["content"] = std::move(texts.content);
  if (message.contains("reasoning_content")) return;
  const std::string* reasoning = text_member(message, "reasoning");
  if (texts.reasoning.empty() && reasoning != nullptr) texts.reasoning = *reasoning;
  if (!texts.reasoning.empty()) message["reasoning_content"] = std::move(texts.reasoning);
}

void read_role(json& message, const std::string& where) {
  const std::string* role = text_member(message, "role");
  if (role == nullptr || role->empty()) fail(where + ".role", "is required: a string");
  const bool is_name =
      role->size() <= kRoleBytes && std::all_of(role->begin(), role->end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
      });
  if (!is_name) fail(where + ".role", "must be a name such as \"user\" or \"assistant\"");
}

void read_arguments(json& function, const std::string& where, const OpenText& open) {
  json& arguments = function["arguments"];
  if (arguments.is_null()) arguments = json::object();
  const std::string* text = arguments.get_ptr<const std::string*>();
  if (text == nullptr) return;
  const bool blank = text->find_first_not_of(" \t\r\n") == std::string::npos;
  if (blank) {
    arguments = json::object();
    return;
  }
  Result<json> opened = open(*text);
  if (!opened) fail(where + ".arguments", opened.error().what);
  if (opened->is_object()) arguments = std::move(opened).value();
}

/// Reads {name, arguments} at any place.
json read_function(const json& given, const std::string& where, const OpenText& open) {
  if (!given.is_object()) fail(where, "is required: an object with a name");
  json function = given;
  drop_nulls(function);
  const std::string* name = text_member(function, "name");
  if (name == nullptr || name->empty()) fail(where + ".name", "is required: a string");
  read_arguments(function, where, open);
  return function;
}

/// Makes a function of a free-text tool: its input becomes the one argument.
json function_of_custom(const json* custom, const std::string& where) {
  const std::string* name =
      custom == nullptr || !custom->is_object() ? nullptr : text_member(*custom, "name");
  if (name == nullptr) fail(where + ".name", "is required: a string");
  const std::string* input = text_member(*custom, "input");
  return {{"name", *name}, {"arguments", {{"input", input == nullptr ? std::string() : *input}}}};
}

json read_call(const json& given, const std::string& where, const OpenText& open) {
  if (!given.is_object()) fail(where, "must be an object");
  json call = given;
  drop_nulls(call);
  if (const json* id = member(call, "id"); id != nullptr && !id->is_string()) {
    fail(where + ".id", "must be a string");
  }
  const std::string* type = text_member(call, "type");
  if (type != nullptr && *type == "custom") {
    call["function"] = function_of_custom(member(call, "custom"), where + ".custom");
    call.erase("custom");
  } else {
    const json* function = member(call, "function");
    call["function"] =
        read_function(function == nullptr ? json() : *function, where + ".function", open);
  }
  call["type"] = "function";
  return call;
}

/// The calls without an answer so far. A lookup costs the same however many there are.
class OpenCalls {
 public:
  struct Call {
    std::string id, name;
    bool answered = false;
  };
  void add(std::string id, std::string name) {
    by_id_[id].calls.push_back(calls_.size());
    by_name_[name].calls.push_back(calls_.size());
    calls_.push_back({std::move(id), std::move(name)});
  }
  /// Returns the first open call with that id; without an id, with that name; without both, the
  /// first of all.
  const Call* answer(const std::string* id, const std::string* name) {
    if (id != nullptr && !id->empty()) return first_of(by_id_, *id);
    if (name != nullptr && !name->empty()) return first_of(by_name_, *name);
    while (next_ < calls_.size() && calls_[next_].answered) ++next_;
    return next_ < calls_.size() ? mark(next_) : nullptr;
  }

 private:
  struct Line {
    std::vector<std::size_t> calls;
    std::size_t next = 0;
  };
  using Lines = std::unordered_map<std::string, Line>;
  const Call* first_of(Lines& lines, const std::string& key) {
    const auto found = lines.find(key);
    if (found == lines.end()) return nullptr;
    Line& line = found->second;
    while (line.next < line.calls.size() && calls_[line.calls[line.next]].answered) ++line.next;
    return line.next < line.calls.size() ? mark(line.calls[line.next]) : nullptr;
  }
  const Call* mark(std::size_t i) {
    calls_[i].answered = true;
    return &calls_[i];
  }

  std::vector<Call> calls_;
  Lines by_id_, by_name_;
  std::size_t next_ = 0;
};

class Normalizer {
 public:
  explicit Normalizer(const OpenText& open) : open_(open) {}

  void run(json& messages) {
    if (!messages.is_array() || messages.empty()) {
      fail("messages", "is required: an array of at least one message");
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::string where = at("messages", i);
      if (!messages[i].is_object()) fail(where, "must be an object");
      read_message(messages[i], where, i);
    }
  }

 private:
  void read_message(json& message, const std::string& where, std::size_t index) {
    read_role(message, where);
    read_content(message, where);
    drop_nulls(message);
    read_calls(message, where, index);
    if (message["role"] == "function") message["role"] = "tool";
    if (message["role"] == "tool") read_answer(message);
  }

  void read_calls(json& message, const std::string& where, std::size_t index) {
    json calls = json::array();
    if (const json* given = member(message, "tool_calls")) {
      if (!given->is_array()) fail(where + ".tool_calls", "must be an array of calls");
      for (std::size_t i = 0; i < given->size(); ++i) {
        calls.push_back(read_call((*given)[i], at(where + ".tool_calls", i), open_));
      }
    }
    if (const json* old = member(message, "function_call"); old != nullptr && calls.empty()) {
      calls.push_back({{"id", "call_" + std::to_string(index)},
                       {"type", "function"},
                       {"function", read_function(*old, where + ".function_call", open_)}});
    }
    message.erase("function_call");
    message.erase("tool_calls");
    if (calls.empty()) return;
    for (const json& call : calls) {
      const std::string* id = text_member(call, "id");
      waiting_.add(id == nullptr ? "" : *id, call["function"]["name"].get<std::string>());
    }
    message["tool_calls"] = std::move(calls);
  }

  void read_answer(json& message) {
    const std::string* id = text_member(message, "tool_call_id");
    const std::string* name = text_member(message, "name");
    const OpenCalls::Call* call = waiting_.answer(id, name);
    if (call == nullptr) return;
    const bool needs_id = id == nullptr || id->empty();
    const bool needs_name = name == nullptr || name->empty();
    if (needs_id && !call->id.empty()) message["tool_call_id"] = call->id;
    if (needs_name) message["name"] = call->name;
  }

  const OpenText& open_;
  OpenCalls waiting_;
};

}  // namespace

std::optional<MessageFault> normalize_messages(json& messages, const OpenText& open) {
  try {
    Normalizer(open).run(messages);
    return std::nullopt;
  } catch (Wrong& wrong) {
    return std::move(wrong.fault);
  }
}

}  // namespace holdfast::chat
