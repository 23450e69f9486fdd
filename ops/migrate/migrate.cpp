#include "ops/migrate/migrate.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

namespace holdfast::migrate {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::istringstream words{std::string(text)};
  return {std::istream_iterator<std::string>(words), {}};
}

bool has_word(std::string_view list, std::string_view word) {
  const std::vector<std::string> words = split(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A word as a shell reads it back.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:=,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::optional<std::int64_t> integer_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_off(const std::string& value) {
  return value == "0" || value == "false" || value == "off" || value == "no" || value.empty();
}

/// "5m", "1h30m", "90": seconds; nullopt for another text.
std::optional<double> seconds_of(const std::string& text) {
  if (const auto plain = number_of(text)) return plain;
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 0.001}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}};
  double sum = 0;
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  while (!rest.empty()) {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789."), rest.size());
    const auto number = number_of(std::string(rest.substr(0, digits)));
    rest.remove_prefix(digits);
    const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& entry) {
      return rest.starts_with(entry.first);
    });
    if (!number || unit == std::end(kUnits)) return std::nullopt;
    sum += *number * unit->second;
    rest.remove_prefix(unit->first.size());
  }
  return negative ? -sum : sum;
}

/// A value of ours: nothing to write, or texts to write; `wrong` if it cannot be translated.
struct Rewritten {
  std::vector<std::string> values;
  std::string wrong;
};

Rewritten text_of(std::int64_t value) {
  return {{std::to_string(value)}, {}};
}

Rewritten rewrite_kv_type(const std::string& value) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"f16", "f16"},   {"bf16", "bf16"},   {"f32", "f32"},
      {"q8_0", "int8"}, {"fp8", "fp8"},     {"fp8_e4m3", "fp8"},
      {"int8", "int8"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
  if (value == "auto") return {};
  for (const auto& [theirs, ours] : kTypes) {
    if (value == theirs) return {{std::string(ours)}, {}};
  }
  return {{}, "no KV cache of type " + value + "; --kv-type has f32, f16, bf16, int8 and fp8"};
}

Rewritten rewrite_layers(const std::string& value) {
  constexpr std::int64_t kAll = 99;  // what people write for all of them
  if (value == "auto") return {{"opencl:0+cpu"}, {}};
  if (value == "all") return {{"opencl:0"}, {}};
  const auto layers = integer_of(value);
  if (!layers) return {{}, "expected a number of layers"};
  if (*layers == 0) return {{"cpu"}, {}};
  return {{*layers < 0 || *layers >= kAll ? "opencl:0" : "opencl:0+cpu"}, {}};
}

/// "a,b" or ["a","b"] as values of their own.
Rewritten rewrite_list(const std::string& value) {
  Rewritten out;
  std::string word;
  for (const char c : value + ",") {
    if (std::string_view("[]\"' ").find(c) != std::string_view::npos) continue;
    if (c != ',') {
      word += c;
    } else if (!word.empty()) {
      out.values.push_back(std::exchange(word, {}));
    }
  }
  return out;
}

Rewritten rewrite_number(Rewrite how, const std::string& value) {
  const auto number = how == Rewrite::kSeconds || how == Rewrite::kMilliseconds ? seconds_of(value)
                                                                                : number_of(value);
  constexpr double kMost = 1e12;
  if (!number || std::abs(*number) > kMost) return {{}, "expected a number, not \"" + value + "\""};
  switch (how) {
    case Rewrite::kPositive:
      return *number > 0 ? text_of(std::llround(*number)) : Rewritten{};
    case Rewrite::kShare:
      return text_of(std::llround(*number * 100));
    case Rewrite::kSeconds:
      return text_of(*number < 0 ? 0 : std::max<std::int64_t>(1, std::llround(*number)));
    default:
      return text_of(std::llround(*number * 1000));
  }
}

Rewritten rewrite(Rewrite how, const std::string& value) {
  switch (how) {
    case Rewrite::kKvType:
      return rewrite_kv_type(value);
    case Rewrite::kGpuLayers:
      return rewrite_layers(value);
    case Rewrite::kOrigins:
      return rewrite_list(value);
    case Rewrite::kOnOnly:
      return is_off(value) ? Rewritten{} : Rewritten{{value}, {}};
    case Rewrite::kAsIs:
      return {{value}, {}};
    default:
      return rewrite_number(how, value);
  }
}

/// "/models/Qwen2.5-0.5B-Q8_0.gguf" -> "qwen2.5-0.5b-q8_0".
std::string name_of(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.empty()) name = "model";
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  for (char& c : name) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  }
  return name;
}

/// Host and port of "http://HOST:PORT/", "HOST", "HOST:PORT", ":PORT", "[::1]:PORT".
std::pair<std::string, std::string> address_of(std::string text) {
  if (const std::size_t scheme = text.find("://"); scheme != std::string::npos) {
    text.erase(0, scheme + 3);
  }
  text = text.substr(0, text.find('/'));
  const std::size_t colon = text.rfind(':');
  const bool bare_ipv6 = text.find(':') != colon && !text.starts_with('[');
  const bool in_brackets = text.starts_with('[') && colon < text.find(']');
  if (bare_ipv6) return {"[" + text + "]", ""};
  if (colon == std::string::npos || in_brackets) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool is_any_address(const std::string& host) {
  return host == "0.0.0.0" || host == "::" || host == "[::]";
}

const FlagRow* find_row(std::span<const FlagRow> rows, std::string_view name) {
  const auto at = std::find_if(rows.begin(), rows.end(),
                               [&](const FlagRow& row) { return has_word(row.names, name); });
  return at == rows.end() ? nullptr : &*at;
}

/// True for a flag whose value is not printed.
bool is_secret(const FlagRow& row) {
  return has_word(row.names, "--api-key") || has_word(row.names, "--hf-token");
}

/// True for a word that is a flag, and not a negative number.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

class Translator {
 public:
  explicit Translator(const ServerTable& server) : server_(server) {}

  void take_variables(const Environment& environment) {
    for (const auto& [name, value] : environment) {
      const FlagRow* row = find_row(server_.flags, name);
      if (row == nullptr) {
        out_.unmapped.push_back(
            {name, "no variable of " + std::string(server_.name) + " in this table"});
        continue;
      }
      // "LLAMA_ARG_MLOCK=1" stands for the flag, "=0" for nothing.
      if (!row->takes_value && is_off(value)) continue;
      std::string given = name;
      given.append("=").append(value);
      apply(*row, std::move(given), value);
    }
  }

  void take_words(std::vector<std::string> words) {
    drop_program(words);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--") continue;
      if (is_flag(words[i])) {
        i = take_flag(words, i);
      } else {
        i = take_word(words, i);
      }
    }
  }

  Migration finish() {
    std::vector<std::string> commands;
    if (serves_) commands.push_back(serve_line());
    if (!add_.empty()) commands.push_back(add_line());
    if (!settings_.empty()) commands.push_back(settings_line());
    out_.commands.insert(out_.commands.begin(), commands.begin(), commands.end());
    return std::move(out_);
  }

 private:
  /// True for a flag that goes to `models add` where the model needs one.
  bool is_added(const std::string& flag) const {
    return !add_.empty() && (flag == "--context" || flag == "--kv-type");
  }
  /// The flags of `serve`, or those of them that belong to the model.
  std::string flags(bool added) const {
    std::string out;
    for (const auto& [flag, values] : serve_) {
      if (is_added(flag) != added) continue;
      for (const std::string& value : values) {
        out.append(" ").append(flag);
        if (!value.empty()) out.append(" ").append(quoted(value));
      }
    }
    return out;
  }
  std::string serve_line() const {
    std::string line = "holdfast serve";
    for (const std::string& word : address()) line.append(" ").append(quoted(word));
    if (!model_.empty() && add_.empty()) line += " --model " + quoted(name() + "=" + model_);
    return line + flags(false);
  }
  std::string add_line() const {
    const std::string file = model_.empty() ? "FILE" : quoted(model_);
    std::string line = "holdfast models add " + quoted(name()) + " " + file + flags(true);
    for (const auto& [flag, value] : add_) line.append(" ").append(flag + " " + quoted(value));
    return line + " --load";
  }
  std::string settings_line() const {
    std::string line = "holdfast config set";
    for (const auto& [knob, value] : settings_) {
      line.append(" ").append(knob).append("=").append(value);
    }
    return line;
  }
  std::string name() const {
    if (!name_.empty()) return name_;
    return model_.empty() ? "NAME" : name_of(model_);
  }

  /// --http, unless it is what `serve` does anyway.
  std::vector<std::string> address() const {
    std::string host = host_.empty() ? std::string(server_.host) : host_;
    const std::string port = port_.empty() ? std::string(server_.port) : port_;
    if (is_any_address(host)) host = "*";
    if (host == "localhost") host = "127.0.0.1";
    const bool said = !host_.empty() || !port_.empty();
    const std::string text = host + ":" + port;
    if (!said && text == "127.0.0.1:8080") return {};
    return {"--http", text};
  }

  /// Takes "vllm serve", "python3 -m vllm.entrypoints.openai.api_server", "./llama-server" away.
  void drop_program(std::vector<std::string>& words) const {
    const auto base = [&](std::size_t i) {
      return i < words.size() ? words[i].substr(words[i].find_last_of('/') + 1) : std::string();
    };
    std::size_t count = 0;
    if (base(0).starts_with("python") && base(1) == "-m") {
      count = 3;
    } else if (has_word(server_.programs, base(0))) {
      count = 1;
    }
    if (base(count) == "serve" && server_.server != Server::kLlamaServer) ++count;
    words.erase(words.begin(),
                words.begin() + static_cast<std::ptrdiff_t>(std::min(count, words.size())));
  }

  /// Takes the flag at i; returns the index of its last word.
  std::size_t take_flag(const std::vector<std::string>& words, std::size_t i) {
    const std::size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    if (flag.starts_with("--")) std::replace(flag.begin(), flag.end(), '_', '-');
    const FlagRow* row = find_row(server_.flags, flag);
    const bool next_is_value = i + 1 < words.size() && !is_flag(words[i + 1]);
    if (row == nullptr) {
      out_.unmapped.push_back(
          {words[i], "no flag of " + std::string(server_.name) + " in this table"});
      // The next word is its value, more likely than one of its own.
      return equals == std::string::npos && next_is_value ? i + 1 : i;
    }
    if (!row->takes_value) {
      apply(*row, flag, "1");
    } else if (equals != std::string::npos) {
      apply(*row, words[i], words[i].substr(equals + 1));
    } else if (next_is_value) {
      apply(*row, flag + " " + words[i + 1], words[i + 1]);
      return i + 1;
    } else {
      apply_without_value(*row, flag);
    }
    return i;
  }
  /// A flag that wants a value and has none: -fa was a switch in older versions.
  void apply_without_value(const FlagRow& row, const std::string& flag) {
    const bool needs_none = row.target == Target::kNoNeed || row.target == Target::kNothing;
    if (needs_none) return apply(row, flag, "1");
    out_.unmapped.push_back({flag, "expected a value after it"});
  }

  /// Takes a word that is no flag: vLLM's model, a verb of Ollama.
  std::size_t take_word(const std::vector<std::string>& words, std::size_t i) {
    if (const FlagRow* verb = find_row(server_.verbs, words[i])) {
      serves_ = false;
      const bool more = verb->takes_value && i + 1 < words.size();
      apply(*verb, words[i] + (more ? " " + words[i + 1] : ""), more ? words[i + 1] : "NAME");
      return more ? words.size() - 1 : i;
    }
    if (server_.server == Server::kVllm && model_.empty()) {
      set_model(words[i]);
    } else {
      out_.unmapped.push_back({words[i], "expected a flag of " + std::string(server_.name)});
    }
    return i;
  }

  void set_model(const std::string& path) {
    model_ = path;
    const bool is_repository = server_.server == Server::kVllm && !path.starts_with('/') &&
                               !path.starts_with('.') && !path.ends_with(".gguf");
    if (is_repository) {
      remark(path, "a name of a hub: --model wants the folder or the GGUF file on this machine");
    }
  }

  void remark(const std::string& given, std::string_view why) {
    if (!why.empty()) out_.remarks.push_back({given, std::string(why)});
  }

  void apply(const FlagRow& row, std::string given, const std::string& value) {
    if (is_secret(row)) given = given.substr(0, given.find_first_of(" ="));
    if (row.target == Target::kNoNeed) return remark(given, row.note);
    if (row.target == Target::kNothing) {
      std::string why(row.note);
      if (const std::size_t at = why.find("{}"); at != std::string::npos) why.replace(at, 2, value);
      out_.unmapped.push_back({given, std::move(why)});
      return;
    }
    const Rewritten ours = rewrite(row.rewrite, value);
    if (!ours.wrong.empty()) {
      out_.unmapped.push_back({given, ours.wrong});
      return;
    }
    if (ours.values.empty()) return remark(given, "the default");
    remark(given, row.note);
    put(row, ours.values);
  }

  void put(const FlagRow& row, const std::vector<std::string>& values) {
    const std::string ours(row.ours);
    switch (row.target) {
      case Target::kServe:
        serve_[ours] = values;
        break;
      case Target::kServeOnly:
        serve_[ours] = {""};
        break;
      case Target::kAdd:
        put_add(ours, values[0]);
        break;
      case Target::kSetting:
        settings_[ours] = values[0];
        break;
      case Target::kCommand:
        put_command(ours, values[0]);
        break;
      case Target::kModel:
        set_model(values[0]);
        break;
      case Target::kName:
        name_ = values[0];
        break;
      default:
        put_address(row.target, values[0]);
    }
  }
  /// "--slots" with the value; "--options {…}" has its own.
  void put_add(const std::string& ours, const std::string& value) {
    const std::size_t space = ours.find(' ');
    add_[ours.substr(0, space)] = space == std::string::npos ? value : ours.substr(space + 1);
  }
  void put_command(std::string command, const std::string& value) {
    if (const std::size_t at = command.find("{}"); at != std::string::npos) {
      command.replace(at, 2, quoted(value));
    }
    const bool twice =
        std::find(out_.commands.begin(), out_.commands.end(), command) != out_.commands.end();
    if (!twice) out_.commands.push_back(std::move(command));
  }
  void put_address(Target target, const std::string& value) {
    if (target == Target::kPort) {
      port_ = value;
      return;
    }
    const auto [host, port] = address_of(value);
    host_ = host.empty() ? "127.0.0.1" : host;
    if (!port.empty()) port_ = port;
    if (is_any_address(host_)) {
      remark(value, "other machines are let in with a key alone: `holdfast keys create NAME`");
    }
  }

  const ServerTable& server_;
  Migration out_;
  std::map<std::string, std::vector<std::string>> serve_;
  std::map<std::string, std::string> add_, settings_;
  std::string model_, name_, host_, port_;
  bool serves_ = true;
};

}  // namespace

Environment variables_of(const ServerTable& server, const Environment& all) {
  const std::vector<std::string> prefixes = split(server.environment);
  Environment out;
  for (const auto& variable : all) {
    const auto begins = [&](const std::string& prefix) {
      return variable.first.starts_with(prefix);
    };
    if (std::any_of(prefixes.begin(), prefixes.end(), begins)) out.insert(variable);
  }
  return out;
}

Migration migrate(const ServerTable& server, const std::vector<std::string>& words,
                  const Environment& environment) {
  Translator translator(server);
  translator.take_variables(environment);
  translator.take_words(words);
  return translator.finish();
}

}  // namespace holdfast::migrate
