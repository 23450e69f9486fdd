#pragma once
// What a chat model says, taken apart: text for the reader, reasoning, and calls of tools, each
// model family in its own words (docs/tool-calls.md). Pure and incremental: however the text is cut
// into pieces, the parts are the same, so a stream that is taken up again is parsed again from its
// start.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::chat {

/// How a family writes a call.
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
/// "none", "hermes", "llama3", "mistral", "deepseek", "harmony", "functionary", "glm",
/// "qwen-coder", "seed", "minimax", "cohere", "granite", "gemma".
std::string_view tool_format_name(ToolFormat format);
/// kNone for an unknown name.
ToolFormat tool_format_from_name(std::string_view name);
/// Whether its answers come in channels, which are taken apart whether there are tools or not.
bool has_channels(ToolFormat format);
/// Whether it writes the values of arguments as they are, so that their types come from the tool.
bool has_plain_values(ToolFormat format);
/// By the words that a chat template contains.
ToolFormat detect_tool_format(std::string_view chat_template);
/// Whether the template knows reasoning between <think> and </think>.
bool detects_reasoning(std::string_view chat_template);

/// What is kept of a model: "none", "hermes+think", "deepseek+think+open"; of an answer that goes
/// on from a text of its messages: "hermes+begun".
struct OutputKind {
  ToolFormat format = ToolFormat::kNone;
  bool reasoning = false;
  bool opens_reasoning = false;  // the prompt of an answer ends with <think>
  bool opens_when_on = false;    // the same where the client has reasoning switched on
  bool opens_when_off = false;   // … or off
  bool goes_on = false;          // the prompt ends with the beginning of the answer's text
};
/// The template's texts for a short conversation, with the opening of the answer.
struct OpeningPrompts {
  std::string plain;
  std::string on;   // reasoning switched on
  std::string off;  // reasoning switched off
};
/// The switches are part of it where they make a difference: "hermes+think+on".
std::string describe_output(std::string_view chat_template, const OpeningPrompts& prompts);
/// The inverse; nothing known for other texts.
OutputKind read_output(std::string_view text);
/// The inverse of that.
std::string write_output(const OutputKind& kind);

/// A piece of one call. `name` comes whole, with the first piece.
struct CallDelta {
  int index = 0;  // of the call, from 0
  std::string name;
  std::string arguments;  // JSON text, to be appended
  bool operator==(const CallDelta&) const = default;
};

struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<CallDelta> calls;
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

/// Of each function the arguments that are something else than strings. Formats that write values
/// as they are leave it to whoever reads: "5" is a number if the tool says so.
using JsonArguments = std::map<std::string, std::set<std::string>>;

struct OutputOptions {
  ToolFormat format = ToolFormat::kNone;
  bool tools = false;                // calls are looked for (channels always are)
  bool reasoning = false;            // <think> … </think> is taken out of the content
  bool starts_in_reasoning = false;  // the prompt has opened <think> already
  bool starts_in_text = false;       // the prompt has the beginning of the answer's text
  JsonArguments json_arguments;
};

/// Not thread-safe. The concatenation of what feed() and finish() give depends on the whole text
/// alone. What looks like a call and is none (broken JSON, no name) is content, as it was written;
/// one that breaks off after its name keeps what came of its arguments.
class OutputParser {
 public:
  explicit OutputParser(const OutputOptions& options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  /// `text` is UTF-8 that may be cut anywhere, control tokens spelled out.
  OutputDelta feed(std::string_view text);
  /// No more comes.
  OutputDelta finish();
  /// Something is kept back that finish() may give.
  bool pending() const;
  int calls() const;  // begun so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::chat
