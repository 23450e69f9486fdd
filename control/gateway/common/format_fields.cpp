#include "control/gateway/common/format_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// How a member states the format.
enum class Form {
  kTyped,      // {"type": "json_schema", …}
  kOllama,     // "json", or a schema
  kSchema,     // a schema, perhaps as text
  kRegex,      // text
  kGrammar,    // text, GBNF
  kChoice,     // a list of texts
  kAnyObject,  // true or false
};
struct Member {
  std::string_view name;
  Form form;
};

constexpr Member kMembers[] = {
    {"response_format", Form::kTyped},         // OpenAI
    {"output_format", Form::kTyped},           // Anthropic
    {"format", Form::kOllama},                 // Ollama
    {"guided_json", Form::kSchema},            // vLLM
    {"guided_regex", Form::kRegex},            //
    {"guided_choice", Form::kChoice},          //
    {"guided_grammar", Form::kGrammar},        //
    {"guided_json_object", Form::kAnyObject},  //
    {"json_schema", Form::kSchema},            // llama-server, SGLang
    {"grammar", Form::kGrammar},               // llama-server
    {"regex", Form::kRegex},                   // SGLang
    {"ebnf", Form::kGrammar},                  //
};
/// Members that are objects with a member "format".
constexpr const char* kHolders[] = {"output_config", "text"};  // Anthropic, OpenAI's responses
/// vLLM's object.
constexpr const char* kStructured = "structured_outputs";
constexpr Member kOfStructured[] = {{"json", Form::kSchema},
                                    {"regex", Form::kRegex},
                                    {"choice", Form::kChoice},
                                    {"grammar", Form::kGrammar},
                                    {"json_object", Form::kAnyObject}};
/// Members that tell a bare schema in a typed format.
constexpr const char* kSchemaWords[] = {"type",  "properties", "$ref",  "anyOf",
                                        "oneOf", "allOf",      "const", "enum"};

const json* member(const json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

/// Returns the first of these members that exists.
const json* member(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const json* found = member(object, name)) return found;
  }
  return nullptr;
}

bool is_schema(const json& value) {
  return value.is_object() && std::any_of(std::begin(kSchemaWords), std::end(kSchemaWords),
                                          [&](const char* word) { return value.contains(word); });
}

/// Returns the schema of {"type": "json_schema", …}: OpenAI wraps it twice, others once or not at
/// all.
const json* schema_of(const json& format) {
  const json* wrapped = member(format, "json_schema");
  if (wrapped != nullptr && wrapped->is_object()) {
    if (const json* schema = member(*wrapped, "schema")) return schema;
    if (is_schema(*wrapped)) return wrapped;
  }
  return member(format, {"schema", "value"});
}

/// Returns a text as a GBNF literal.
std::string literal(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) {
      out += std::string("\\x") + kDigits[u >> 4] + kDigits[u & 15];
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

class FormatReader {
 public:
  FormatReader(Fields& fields, BodyBudget& budget, std::vector<std::string>* ignored)
      : fields_(fields), budget_(budget), ignored_(ignored) {}

  std::optional<grammar::GrammarRequest> read() {
    for (const Member& one : kMembers) {
      if (const json* value = fields_.take(one.name)) take(std::string(one.name), one.form, *value);
    }
    for (const char* holder : kHolders) read_holder(holder);
    read_structured();
    return std::move(grammar_);
  }

 private:
  void take(const std::string& name, Form form, const json& value) {
    switch (form) {
      case Form::kTyped:
        return typed(name, value);
      case Form::kOllama:
        return of_ollama(name, value);
      case Form::kSchema:
        return schema(name, value);
      case Form::kRegex:
        return text(name, "regex", &value);
      case Form::kGrammar:
        return text(name, "gbnf", &value);
      case Form::kChoice:
        return choice(name, value);
      case Form::kAnyObject:
        if (!value.is_boolean()) return fields_.fail(name, "must be true or false");
        if (value == true) set_grammar(name, "json_object", "");
        return;
    }
  }

  void set_grammar(const std::string& name, const char* kind, std::string source) {
    if (grammar_ && (grammar_->kind != kind || grammar_->source != source)) {
      return fields_.fail(name_, "and '" + name + "' ask for different texts; send one of them");
    }
    if (grammar_ || !fields_.check(name, budget_.make(source.size()))) return;
    grammar_ = grammar::GrammarRequest{kind, std::move(source)};
    name_ = name;
  }

  void schema(const std::string& name, const json& value) {
    if (!value.is_string()) return set_grammar(name, "json_schema", value.dump());
    const auto& text = value.get_ref<const std::string&>();
    const auto opened = budget_.open(text, 1);
    if (!opened) return fields_.fail(name, opened.error().what);
    set_grammar(name, "json_schema", text);
  }

  void text(const std::string& name, const char* kind, const json* value) {
    if (value == nullptr || !value->is_string()) return fields_.fail(name, "must be a string");
    const auto& source = value->get_ref<const std::string&>();
    // llama-server's clients send an empty grammar for none.
    if (source.empty() && name == "grammar") return;
    set_grammar(name, kind, source);
  }

  void choice(const std::string& name, const json& value) {
    if (!value.is_array() || value.empty()) {
      return fields_.fail(name, "must be a list of at least one string");
    }
    std::string source = "root ::= ";
    for (const json& one : value) {
      if (!one.is_string()) return fields_.fail(name, "must be a list of strings");
      if (&one != &value.front()) source += " | ";
      source += literal(one.get_ref<const std::string&>());
    }
    set_grammar(name, "gbnf", std::move(source));
  }

  void typed(const std::string& name, const json& format) {
    const json kind = format.is_object() ? format.value("type", json()) : json();
    if (kind == "text") return;
    if (kind == "json_object" || kind == "json") return json_object(name, format);
    if (kind == "json_schema") {
      const json* given = schema_of(format);
      if (given == nullptr) return fields_.fail(name, "lacks 'json_schema.schema', a JSON schema");
      return schema(name, *given);
    }
    if (kind == "regex") {
      return text(name + ".pattern", "regex", member(format, {"pattern", "regex", "value"}));
    }
    if (kind == "grammar") {
      return text(name + ".grammar", "gbnf", member(format, {"grammar", "value"}));
    }
    fields_.fail(name,
                 "must have the type \"text\", \"json_object\", \"json_schema\", \"regex\" or "
                 "\"grammar\"");
  }

  /// Any object, or one by the schema that comes with it.
  void json_object(const std::string& name, const json& format) {
    const json* given = member(format, {"schema", "value"});
    if (given != nullptr) return schema(name, *given);
    set_grammar(name, "json_object", "");
  }

  void of_ollama(const std::string& name, const json& format) {
    if (format == "") return;
    if (format == "json") return set_grammar(name, "json_object", "");
    if (!format.is_object()) return fields_.fail(name, "must be \"json\" or a JSON schema");
    const json kind = format.value("type", json());
    const bool is_typed = kind == "text" || kind == "json_object" || kind == "json_schema";
    is_typed ? typed(name, format) : schema(name, format);
  }

  void read_holder(const std::string& holder) {
    const json* object = fields_.take(holder);
    if (object == nullptr) return;
    if (!object->is_object()) return ignored_->push_back(holder);
    for (const auto& [name, value] : object->items()) {
      if (value.is_null() || name == "effort") continue;  // read in thinking_fields.h
      const std::string full = holder + "." + name;
      name == "format" ? typed(full, value) : ignored_->push_back(full);
    }
  }

  void read_structured() {
    const json* object = fields_.take(kStructured);
    if (object == nullptr) return;
    if (!object->is_object()) return fields_.fail(kStructured, "must be an object");
    for (const auto& [name, value] : object->items()) {
      if (value.is_null()) continue;
      const std::string full = std::string(kStructured) + "." + name;
      const auto found =
          std::find_if(std::begin(kOfStructured), std::end(kOfStructured),
                       [&field = name](const Member& one) { return one.name == field; });
      if (found != std::end(kOfStructured)) {
        take(full, found->form, value);
      } else if (name == "structural_tag") {
        fields_.fail(full, "is not read by this server; ask for json, regex, choice or grammar");
      } else {
        ignored_->push_back(full);
      }
    }
  }

  Fields& fields_;
  BodyBudget& budget_;
  std::vector<std::string>* const ignored_;
  std::optional<grammar::GrammarRequest> grammar_;
  std::string name_;  // name of its member
};

}  // namespace

std::optional<grammar::GrammarRequest> read_format(Fields& fields, BodyBudget& budget,
                                                   std::vector<std::string>* ignored) {
  return FormatReader(fields, budget, ignored).read();
}

}  // namespace holdfast::gateway
