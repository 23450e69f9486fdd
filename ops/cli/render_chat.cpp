// `holdfast render`: what a chat template makes of messages, byte for byte.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "ops/cli/text_input.h"
#include "ops/cli/tokenize.h"
#include "ops/cli/verb_functions.h"
#include "ops/terminal/output.h"
#include "shared/gguf/gguf.h"
#include "shared/huggingface/folder.h"
#include "shared/jinja/chat_template.h"
#include "shared/text/tokenizer.h"

namespace holdfast::cli {
namespace {

using Json = nlohmann::ordered_json;  // templates print objects: the order of keys is text

struct Source {
  std::string text;
  std::string bos_token, eos_token;  // of the file's tokenizer
};

bool is_gguf(const std::string& bytes) {
  return bytes.rfind("GGUF", 0) == 0;
}

Result<Source> read_template(const std::string& path) {
  if (!huggingface::is_folder(path)) {
    HOLDFAST_TRY(std::string bytes, read_text_argument(path));
    if (bytes == path) return Error{Errc::kNotFound, "render " + path + ": no such file"};
    if (!is_gguf(bytes)) return Source{std::move(bytes), "", ""};
  }
  HOLDFAST_TRY(const auto file, huggingface::open_model(path, huggingface::Contents::kShapes));
  HOLDFAST_TRY(const auto tokenizer, text::Tokenizer::load(*file));
  if (tokenizer->chat_template().empty()) {
    return Error{Errc::kNoChatTemplate, "render " + path + ": the file has no chat template"};
  }
  return Source{std::string(tokenizer->chat_template()),
                std::string(tokenizer->token_bytes(tokenizer->bos(), true)),
                std::string(tokenizer->token_bytes(tokenizer->eos(), true))};
}

std::string text_or(const Json& json, const char* key, const std::string& fallback) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : fallback;
}

Result<text::ChatInput> read_case(const std::string& bytes, const Source& source) {
  const Json json = Json::parse(bytes, nullptr, false);
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array()) {
    return Error{Errc::kInvalidRequest,
                 "render: the input is something else, expected a JSON object with an array "
                 "`messages`"};
  }
  text::ChatInput input;
  input.messages_json = json["messages"].dump();
  if (json.contains("tools") && json["tools"].is_array()) input.tools_json = json["tools"].dump();
  const auto generate = json.find("add_generation_prompt");
  if (generate != json.end()) {
    input.add_generation_prompt = generate->is_boolean() && generate->get<bool>();
  }
  input.bos_token = text_or(json, "bos_token", source.bos_token);
  input.eos_token = text_or(json, "eos_token", source.eos_token);
  input.date = text_or(json, "date", text::utc_date(std::time(nullptr)));
  return input;
}

Result<std::string> render(const Call& call) {
  HOLDFAST_TRY(const Source source, read_template(call.text("TEMPLATE")));
  HOLDFAST_TRY(const std::string bytes, file_text_argument(call, "input"));
  HOLDFAST_TRY(const text::ChatInput input, read_case(bytes, source));
  HOLDFAST_TRY(const auto chat_template, text::ChatTemplate::parse(source.text));
  return chat_template->render(input);
}

}  // namespace

int render_chat(const Call& call) {
  const auto text = render(call);
  if (!text) {
    if (report_error(call, text.error()) == kExitUsage) return kExitUsage;
    // A template that raises has done what it is for; scripts expect a plain failure.
    return text.error().code == Errc::kNotFound ? kExitNotFound : kExitFailed;
  }
  if (call.json) {
    std::printf("%s\n", nlohmann::json{{"text", text.value()}}.dump().c_str());
  } else {
    std::fwrite(text.value().data(), 1, text.value().size(), stdout);
  }
  std::fflush(stdout);
  return kExitDone;
}

}  // namespace holdfast::cli
