#pragma once
// Parses the output of a chat model: text for the reader, reasoning, and tool calls, in the format
// of each model family (docs/use/tool-calls.md). Pure and incremental: however the text is cut into
// chunks, the parts are the same, so a stream that is resumed is parsed again from its start.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::chat {

/// The format of a family's tool calls.
enum class ToolFormat : std::uint8_t {
  kNone,      // the template knows no tools
  kHermes,    // <tool_call>{"name": …, "arguments": …}</tool_call>: Hermes, Qwen
  kLlama3,    // {"name": …, "parameters": …}, after <|python_tag|> or alone; <function=…>…
  kMistral,   // [TOOL_CALLS][{…}] or [TOOL_CALLS]name[ARGS]{…}
  kDeepSeek,  // <｜tool▁call▁begin｜>…<｜tool▁sep｜>…<｜tool▁call▁end｜>
  kHarmony,   // <|channel|>commentary to=functions.name …<|message|>{…}<|call|>: gpt-oss
  kFunctionary,  // >>>name\n{…}
  kGlm,          // <tool_call>name<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>
  kQwenCoder,    // <tool_call><function=name><parameter=k>v</parameter></function></tool_call>
  kSeed,         // the same in <seed:tool_call>
  kMinimax,  // <minimax:tool_call><invoke name="name"><parameter name="k">v</parameter></invoke>…
  kCohere,   // <|START_ACTION|>[{"tool_name": …, "parameters": …}]<|END_ACTION|>
  kGranite,  // <|tool_call|>[{…}]
  kGemma,    // <|tool_call>call:name{k:<|"|>v<|"|>}<tool_call|>, channels: Gemma 4
};
inline constexpr int kToolFormats = 14;
/// Returns "none", "hermes", "llama3", "mistral", "deepseek", "harmony", "functionary", "glm",
/// "qwen-coder", "seed", "minimax", "cohere", "granite", "gemma".
std::string_view tool_format_name(ToolFormat format);
/// Returns kNone for an unknown name.
ToolFormat tool_format_from_name(std::string_view name);
/// Returns true if answers come in channels, which are parsed whether there are tools or not.
bool has_channels(ToolFormat format);
/// Returns true if argument values are written as plain text, so that their types come from the
/// tool.
bool has_plain_values(ToolFormat format);
/// Detects the format by the words that a chat template contains.
ToolFormat detect_tool_format(std::string_view chat_template);
/// Returns true if the template knows reasoning between <think> and </think>.
bool detects_reasoning(std::string_view chat_template);

/// A model's output format as it is stored: "none", "hermes+think", "deepseek+think+open"; for an
/// answer that continues a text of its messages: "hermes+begun".
struct OutputKind {
  ToolFormat format = ToolFormat::kNone;
  bool reasoning = false;
  bool opens_reasoning = false;  // the prompt of an answer ends with <think>
  bool opens_when_on = false;    // the same where the client has reasoning switched on
  bool opens_when_off = false;   // … or off
  bool goes_on = false;          // the prompt ends with the beginning of the answer's text
};
/// The template's prompts for a short conversation, with the opening of the answer.
struct OpeningPrompts {
  std::string plain;
  std::string on;   // reasoning switched on
  std::string off;  // reasoning switched off
};
/// Returns the text of the output kind. It has the reasoning switches where they matter:
/// "hermes+think+on".
std::string describe_output(std::string_view chat_template, const OpeningPrompts& prompts);
/// Reads a text of describe_output(); an unknown text gives the default.
OutputKind read_output(std::string_view text);
/// Returns the text that read_output() reads.
std::string write_output(const OutputKind& kind);

/// A part of one call. `name` comes whole, in the first part.
struct CallDelta {
  int index = 0;  // of the call, from 0
  std::string name;
  std::string arguments;  // JSON text, to be appended
  bool operator==(const CallDelta&) const = default;
};

/// The text that a chunk adds to each part of the answer.
struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<CallDelta> calls;
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

/// The arguments of each function that are not strings. Formats that write plain values leave the
/// type to the reader: "5" is a number if the tool says so.
using JsonArguments = std::map<std::string, std::set<std::string>>;

/// The way to parse one answer, from its model's template and its request.
struct OutputOptions {
  ToolFormat format = ToolFormat::kNone;
  bool tools = false;                // parse calls (channels are always parsed)
  bool reasoning = false;            // take <think> … </think> out of the content
  bool starts_in_reasoning = false;  // the prompt has opened <think> already
  bool starts_in_text = false;       // the prompt has the beginning of the answer's text
  JsonArguments json_arguments;
};

/// The parser of one answer. Not thread-safe. The concatenation of what feed() and finish() return
/// depends on the whole text alone. Text that looks like a call and is not one (broken JSON, no
/// name) is content, unchanged; a call that breaks off after its name keeps the arguments that
/// came.
class OutputParser {
 public:
  explicit OutputParser(const OutputOptions& options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  /// Takes UTF-8 text that may be cut anywhere, with control tokens as text.
  OutputDelta feed(std::string_view text);
  /// Ends the text and returns the rest.
  OutputDelta finish();
  /// Returns true if text is held back that finish() may return.
  bool pending() const;
  int calls() const;  // begun so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::chat
