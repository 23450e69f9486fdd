#include "shared/gguf/lookalike.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace holdfast::gguf {
namespace {

constexpr std::size_t kHeadBytes = 512;

/// The first bytes of a kind of file, and its description. Texts are compared in lower case, from
/// the first byte that is not blank.
struct Lookalike {
  std::string_view begins;
  std::string_view what;
};

constexpr std::string_view kPage =
    "this is an HTML page, not a model: download the file itself (on a model hub its address has "
    "/resolve/ in it, not /blob/)";
constexpr std::string_view kGgml =
    "this is a file of an older format (GGML), expected GGUF: download or convert the model again";
constexpr std::string_view kPacked = "this is a compressed archive, not a model: unpack it first";

constexpr Lookalike kTexts[] = {
    {"version https://git-lfs.github.com/",
     "this is a Git LFS pointer, not the model itself: run git lfs pull in its folder"},
    {"version https://hawser.github.com/",
     "this is a Git LFS pointer, not the model itself: run git lfs pull in its folder"},
    {"/annex/objects/",
     "this is a git-annex pointer, not the model itself: run git annex get in its folder"},
    {"# xet version",
     "this is a Xet pointer, not the model itself: download it with a client that knows Xet"},
    {"<!doctype html", kPage},
    {"<html", kPage},
    {"<head", kPage},
    {"<!--", kPage},
    {"<?xml", "this is an XML document, not a model: most likely the error of a download"},
    {"{\"error\"", "this is the error of a download, not a model: look at it, and fetch it again"},
    {"invalid username or password",
     "this is the error of a download, not a model: log in at the hub, and fetch it again"},
    {"access to model",
     "this is the error of a download, not a model: ask the hub for access, and fetch it again"},
    {"entry not found", "this is the error of a download, not a model: the hub has no such file"},
};

using namespace std::string_view_literals;

constexpr Lookalike kBytes[] = {
    {"lmgg"sv, kGgml},
    {"ggml"sv, kGgml},
    {"tjgg"sv, kGgml},
    {"fmgg"sv, kGgml},
    {"algg"sv, kGgml},
    {"FUGG"sv, "this is a GGUF file of a big-endian machine, expected a little-endian one"},
    {"PK\3\4"sv,
     "this is a ZIP archive (a checkpoint of PyTorch is one): expected GGUF, or a folder with "
     "safetensors"},
    {"\x80\2"sv, "this is a pickled checkpoint: expected GGUF, or a folder with safetensors"},
    {"\x1f\x8b"sv, kPacked},
    {"\x28\xb5\x2f\xfd"sv, kPacked},
    {"\xfd"
     "7zXZ"sv,
     kPacked},
    {"BZh"sv, kPacked},
    {"7z\xbc\xaf"sv, kPacked},
};

std::string lower_text(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  std::string text(head.substr(first));
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string_view lookalike(ByteSpan file) {
  if (file.empty()) return "this is an empty file: the download did not begin";
  const ByteSpan bytes = file.first(std::min(file.size(), kHeadBytes));
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const auto& [begins, what] : kBytes) {
    if (head.starts_with(begins)) return what;
  }
  const std::string text = lower_text(head);
  for (const auto& [begins, what] : kTexts) {
    if (text.starts_with(begins)) return what;
  }
  const bool zeros = std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; });
  if (zeros) return "this file begins with zeros: its download is not complete";
  return {};
}

bool looks_like_safetensors(ByteSpan file) {
  const ByteSpan bytes = file.first(std::min(file.size(), kHeadBytes));
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return head.size() > 9 && head.substr(5, 3) == "\0\0\0"sv && head[8] == '{';
}

}  // namespace holdfast::gguf
