#include "shared/chat/output_parser.h"

#include <array>
#include <utility>

#include "shared/chat/parser_base.h"

namespace holdfast::chat {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::array<std::string_view, kToolFormats> kNames = {
    "none", "hermes",     "llama3", "mistral", "deepseek", "harmony", "functionary",
    "glm",  "qwen-coder", "seed",   "minimax", "cohere",   "granite", "gemma"};

/// Returns true if the prompt of an answer ends with the mark that begins reasoning.
bool opens(std::string_view prompt) {
  const std::size_t end = prompt.find_last_not_of(" \n");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with(kThink);
}

std::unique_ptr<Family> make_family(const OutputOptions& o) {
  if (o.format == ToolFormat::kHarmony) return make_harmony();
  if (o.format == ToolFormat::kGemma) return make_gemma(o.tools);
  if (!o.tools) return make_plain();
  switch (o.format) {
    case ToolFormat::kHermes:
      return make_hermes();
    case ToolFormat::kLlama3:
      return make_llama3();
    case ToolFormat::kMistral:
      return make_mistral();
    case ToolFormat::kDeepSeek:
      return make_deepseek();
    case ToolFormat::kFunctionary:
      return make_functionary();
    case ToolFormat::kCohere:
      return make_cohere();
    case ToolFormat::kGranite:
      return make_granite();
    case ToolFormat::kGlm:
    case ToolFormat::kQwenCoder:
    case ToolFormat::kSeed:
    case ToolFormat::kMinimax:
      return make_tagged(o.format, o.json_arguments);
    default:
      return make_plain();
  }
}

}  // namespace

std::string_view tool_format_name(ToolFormat format) {
  return kNames.at(static_cast<std::size_t>(format));
}

ToolFormat tool_format_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ToolFormat>(i);
  }
  return ToolFormat::kNone;
}

bool has_channels(ToolFormat format) {
  return format == ToolFormat::kHarmony || format == ToolFormat::kGemma;
}

bool has_plain_values(ToolFormat format) {
  return format >= ToolFormat::kGlm && format <= ToolFormat::kMinimax;
}

namespace {

/// Marks of a template by which a format is recognised: the first, and the second too.
struct FormatMarks {
  std::string_view first;
  std::string_view second;  // empty: the first suffices
  ToolFormat format;
};

// The first that matches counts.
constexpr FormatMarks kMarks[] = {
    {"<|channel|>", "", ToolFormat::kHarmony},
    {"<｜tool▁call▁begin｜>", "", ToolFormat::kDeepSeek},
    {"[TOOL_CALLS]", "", ToolFormat::kMistral},
    {">>>", "", ToolFormat::kFunctionary},
    {"<minimax:tool_call>", "", ToolFormat::kMinimax},
    {"<seed:tool_call>", "", ToolFormat::kSeed},
    {"<arg_key>", "", ToolFormat::kGlm},
    {"<function=", "<parameter=", ToolFormat::kQwenCoder},
    {"<|START_ACTION|>", "", ToolFormat::kCohere},
    {"<|tool_call|>", "", ToolFormat::kGranite},
    {"<|tool_call>", "<|channel>", ToolFormat::kGemma},
    {"<tool_call>", "", ToolFormat::kHermes},
    {"<|python_tag|>", "", ToolFormat::kLlama3},
    {"\"parameters\"", "tool_calls", ToolFormat::kLlama3},
    {"<function=", "", ToolFormat::kLlama3},
};

}  // namespace

ToolFormat detect_tool_format(std::string_view t) {
  const auto has = [&](std::string_view words) { return t.find(words) != std::string_view::npos; };
  for (const FormatMarks& marks : kMarks) {
    if (has(marks.first) && has(marks.second)) return marks.format;
  }
  return ToolFormat::kNone;
}

bool detects_reasoning(std::string_view t) {
  return t.find(kThinkEnd) != std::string_view::npos || t.find(kThink) != std::string_view::npos;
}

std::string describe_output(std::string_view chat_template, const OpeningPrompts& prompts) {
  OutputKind kind;
  kind.format = detect_tool_format(chat_template);
  kind.reasoning = detects_reasoning(chat_template);
  kind.opens_reasoning = kind.reasoning && opens(prompts.plain);
  kind.opens_when_on = kind.reasoning && opens(prompts.on);
  kind.opens_when_off = kind.reasoning && opens(prompts.off);
  return write_output(kind);
}

OutputKind read_output(std::string_view text) {
  OutputKind kind;
  kind.format = tool_format_from_name(text.substr(0, text.find('+')));
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  kind.reasoning = has("+think");
  kind.opens_reasoning = has("+open");
  const bool differs = has("+on") || has("+off") || has("+never");
  kind.opens_when_on = differs ? has("+on") : kind.opens_reasoning;
  kind.opens_when_off = differs ? has("+off") : kind.opens_reasoning;
  kind.goes_on = has("+begun");
  return kind;
}

namespace {

/// Returns the marks for what differs with the switch of reasoning.
std::string switch_marks(const OutputKind& kind) {
  const bool on = kind.opens_when_on, off = kind.opens_when_off;
  if (on == kind.opens_reasoning && off == kind.opens_reasoning) return "";
  if (!on && !off) return "+never";
  return std::string(on ? "+on" : "") + (off ? "+off" : "");
}

}  // namespace

std::string write_output(const OutputKind& kind) {
  std::string out(tool_format_name(kind.format));
  if (kind.reasoning) out += "+think";
  if (kind.opens_reasoning) out += "+open";
  out += switch_marks(kind);
  if (kind.goes_on) out += "+begun";
  return out;
}

/// The reasoning, which comes first in every family; the rest goes to the family's parser.
struct OutputParser::State {
  enum class At : std::uint8_t { kStart, kReasoning, kAfterReasoning, kRest };
  std::unique_ptr<Family> family;
  std::string start;  // text that may be reasoning or not
  At at = At::kRest;
  std::string newlines;   // of reasoning, held back
  bool reasoned = false;  // some reasoning was returned

  OutputDelta step(std::string_view text, bool last) {
    OutputDelta out;
    if (at == At::kRest) {
      family->buffer += text;
    } else {
      start += text;
      lead(last, out);
    }
    family->last = last;
    while (family->step()) {
    }
    if (last && family->calls == 0) family->end_text();
    OutputDelta rest = std::exchange(family->out, {});
    rest.reasoning.insert(0, out.reasoning);
    return rest;
  }

  void lead(bool last, OutputDelta& out) {
    if (at == At::kStart) {
      const std::size_t n = std::min(start.find_first_not_of(" \n\t\r"), start.size());
      const std::string_view rest = std::string_view(start).substr(n);
      if (!last && rest.size() < kThink.size() && kThink.substr(0, rest.size()) == rest) return;
      if (rest.substr(0, kThink.size()) != kThink) return pass_on();
      start.erase(0, n + kThink.size());
      at = At::kReasoning;
    }
    if (at == At::kReasoning && !reason(last, out)) return;
    const std::size_t n = start.find_first_not_of("\n\r ");
    if (n == std::string::npos && !last) return start.clear();
    start.erase(0, std::min(n, start.size()));
    pass_on();
  }
  /// Reads reasoning; true when it is over. Line ends around it are not part of it.
  bool reason(bool last, OutputDelta& out) {
    const std::size_t end = start.find(kThinkEnd);
    std::size_t resolved = std::min(end, start.size());
    if (end == std::string::npos && !last) resolved -= begun_end();
    std::string text = newlines + start.substr(0, resolved);
    start.erase(0, resolved);
    if (!reasoned) text.erase(0, text.find_first_not_of('\n'));
    const std::size_t content_end = text.find_last_not_of('\n') + 1;  // 0: there are only line ends
    newlines = text.substr(content_end);
    reasoned = reasoned || content_end > 0;
    out.reasoning += text.substr(0, content_end);
    if (end == std::string::npos) return false;
    start.erase(0, kThinkEnd.size());
    at = At::kAfterReasoning;
    return true;
  }
  /// Returns how many bytes at the end may be the beginning of the closing mark.
  std::size_t begun_end() const {
    for (std::size_t k = std::min(kThinkEnd.size() - 1, start.size()); k > 0; --k) {
      if (start.compare(start.size() - k, k, kThinkEnd.substr(0, k)) == 0) return k;
    }
    return 0;
  }
  void pass_on() {
    family->buffer += start;
    start.clear();
    at = At::kRest;
  }
};

OutputParser::OutputParser(const OutputOptions& options) : state_(std::make_unique<State>()) {
  state_->family = make_family(options);
  if (options.starts_in_text) state_->family->go_on();
  const bool leads = options.reasoning && !options.starts_in_text && !has_channels(options.format);
  if (leads) {
    state_->at = options.starts_in_reasoning ? State::At::kReasoning : State::At::kStart;
  }
}

OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

OutputDelta OutputParser::feed(std::string_view text) {
  return state_->step(text, false);
}

OutputDelta OutputParser::finish() {
  return state_->step({}, true);
}

bool OutputParser::pending() const {
  return !state_->start.empty() || state_->family->pending();
}

int OutputParser::calls() const {
  return state_->family->calls;
}

}  // namespace holdfast::chat
