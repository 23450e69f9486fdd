// Verbs that need no daemon: they read or write one file.

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/text_input.h"
#include "ops/cli/tokenize.h"
#include "ops/cli/verb_functions.h"
#include "ops/model_tools/inspect.h"
#include "ops/model_tools/synth.h"
#include "ops/model_tools/synth_family.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "ops/terminal/width.h"

namespace holdfast::cli {
namespace {

void emit(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int print_names(const Call& call, const char* key, const std::vector<std::string>& names) {
  if (call.json) {
    emit(nlohmann::json{{key, names}}.dump() + "\n");
    return kExitDone;
  }
  for (const std::string& name : names) emit(name + "\n");
  return kExitDone;
}

/// Draws "\r  43% of 1.2 GiB" on a terminal, nothing elsewhere.
void show_progress(std::uint64_t done, std::uint64_t total) {
  if (isatty(STDERR_FILENO) != 1 || total == 0) return;
  std::fprintf(stderr, "\r\033[K%3.0f%% of %s", 100.0 * double(done) / double(total),
               human_bytes(double(total)).c_str());
  if (done == total) std::fprintf(stderr, "\r\033[K");
}

}  // namespace

int inspect(const Call& call) {
  const std::int64_t context = call.integer("context");
  const auto streams = static_cast<std::int32_t>(call.integer("streams"));
  const std::string file = call.text("FILE");
  const auto found =
      call.json ? inspect_json(file, context, streams) : inspect_text(file, context, streams);
  if (!found) return report_error(call, found.error());
  if (call.json) {
    emit(found.value() + "\n");
  } else {
    print_lines(found.value());
  }
  return kExitDone;
}

int tokenize(const Call& call) {
  if (call.has("input") && call.has("TEXT")) {
    return report_error(call, Errc::kUsage, "tokenize: expected a TEXT or --input FILE|TEXT");
  }
  const auto text =
      call.has("input") ? read_text_argument(call.text("input")) : text_argument(call, "TEXT");
  if (!text) return report_error(call, text.error());
  TokenizeFlags flags;
  flags.bos = !call.has("no-bos");
  flags.special = !call.has("no-special");
  const auto ids = tokenize_file(call.text("FILE"), text.value(), flags);
  if (!ids) return report_error(call, ids.error());
  if (call.json) {
    emit(nlohmann::json{{"ids", ids.value()}}.dump() + "\n");
    return kExitDone;
  }
  std::string line;
  for (const std::int32_t id : ids.value()) line += (line.empty() ? "" : " ") + std::to_string(id);
  emit(line + "\n");
  return kExitDone;
}

/// The text with the ids: the arguments, or what a file or stdin has.
static Result<std::string> ids_text(const Call& call) {
  if (call.has("input")) return read_text_argument(call.text("input"));
  if (call.list("IDS").size() < 2) return text_argument(call, "IDS");
  std::string text;
  for (const std::string& part : call.list("IDS")) text += part + " ";
  return text;
}

int detokenize(const Call& call) {
  const auto argument = ids_text(call);
  if (!argument) return report_error(call, argument.error());
  const auto ids = parse_ids(argument.value());
  if (!ids) return report_error(call, ids.error());
  const auto text = detokenize_file(call.text("FILE"), ids.value(), !call.has("no-special"));
  if (!text) return report_error(call, text.error());
  if (call.json) {
    emit(nlohmann::json{{"text", mend_utf8(text.value())}}.dump() + "\n");
  } else {
    emit(text.value() + (isatty(STDOUT_FILENO) == 1 ? "\n" : ""));
  }
  return kExitDone;
}

namespace {

/// Runs `synth --arch A OUT`: the one name is the file.
int synth_architecture(const Call& call) {
  const std::string arch = call.text("arch");
  if (arch == "list") return print_names(call, "architectures", synth_architectures());
  const std::string out = call.has("OUT") ? call.text("OUT") : call.text("SHAPE");
  const auto seed = static_cast<std::uint64_t>(call.integer("seed", 0));
  const auto made = synth_family(arch, out, call.text("type", "f32"), seed, call.text("rope"));
  if (!made) return report_error(call, made.error());
  if (call.json) {
    print_document(call, {{"file", out}, {"architecture", arch}, {"seed", seed}});
  } else {
    emit("wrote " + out + "\n");
  }
  return kExitDone;
}

}  // namespace

int synth_model(const Call& call) {
  if (call.has("arch")) return synth_architecture(call);
  const std::string shape = call.text("SHAPE");
  if (shape == "list") return print_names(call, "shapes", synth_shapes());
  if (!call.has("OUT"))
    return report_error(call, Errc::kUsage, "synth " + shape + ": expected OUT.gguf");
  const std::string out = call.text("OUT");
  const std::string type = call.text("type", "q8_0");
  const auto seed = static_cast<std::uint64_t>(call.integer("seed", 1));
  const auto made = synth(shape, out, type, seed, show_progress);
  if (!made) return report_error(call, made.error());
  const nlohmann::json document = {{"file", out}, {"shape", shape}, {"type", type}, {"seed", seed}};
  if (call.json) {
    print_document(call, document);
  } else {
    emit("wrote " + out + "\n");
  }
  return kExitDone;
}

}  // namespace holdfast::cli
