#include "ops/cli/tokenize.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ops/cli/text_input.h"
#include "shared/huggingface/folder.h"
#include "shared/text/releaser.h"
#include "shared/text/tokenizer.h"

namespace holdfast::cli {
namespace {

Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const std::string& path) {
  HOLDFAST_TRY(const auto file, huggingface::open_model(path, huggingface::Contents::kShapes));
  return text::Tokenizer::load(*file);
}

bool separates(char c) {
  return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
}

}  // namespace

Result<std::string> read_text_argument(const std::string& argument) {
  if (argument == "-") return read_stdin();
  std::error_code error;  // a text that is too long for a path, say, is not a file
  if (!std::filesystem::is_regular_file(argument, error)) return argument;
  std::ifstream in(argument, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad()) {
    return Error{Errc::kIo, "read " + argument + ": " + std::strerror(errno) +
                                "; expected a readable text file"};
  }
  return text;
}

Result<std::vector<std::int32_t>> parse_ids(std::string_view argument) {
  std::vector<std::int32_t> ids;
  const char* at = argument.data();
  const char* const end = at + argument.size();
  while (at != end) {
    if (separates(*at)) {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && !separates(*next))) {
      return Error{Errc::kUsage, "read token ids: no whole number at byte " +
                                     std::to_string(at - argument.data()) +
                                     "; expected ids like 1,2,3"};
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

Result<std::vector<std::int32_t>> tokenize_file(const std::string& model_path,
                                                std::string_view text, const TokenizeFlags& flags) {
  HOLDFAST_TRY(const auto tokenizer, load_tokenizer(model_path));
  return tokenizer->encode(text, {.add_special = flags.bos, .parse_special = flags.special});
}

Result<std::string> detokenize_file(const std::string& model_path,
                                    const std::vector<std::int32_t>& ids, bool special) {
  HOLDFAST_TRY(const auto tokenizer, load_tokenizer(model_path));
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < tokenizer->vocab_size()) continue;
    return Error{Errc::kInvalidRequest, "detokenize with " + model_path + ": token id " +
                                            std::to_string(id) +
                                            " is not in the vocabulary; expected ids from 0 to " +
                                            std::to_string(tokenizer->vocab_size() - 1)};
  }
  return text::decode(*tokenizer, ids, special, true);
}

std::string mend_utf8(std::string_view bytes) {
  text::Releaser releaser;
  std::string text = releaser.feed(bytes);
  return text += releaser.finish();
}

}  // namespace holdfast::cli
