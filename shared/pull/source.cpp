#include "shared/pull/source.h"

#include <algorithm>
#include <cctype>

#include "shared/base/ascii.h"
#include "shared/base/url.h"

namespace holdfast::pull {
namespace {

constexpr std::size_t kSourceBytesMax = 2'048;
constexpr std::size_t kSha256Digits = 64;
constexpr std::size_t kPathBytesMax = 512;

constexpr const char* kForms =
    "expected hf.co/ORG/REPO[:QUANT], https://HOST/PATH/FILE.gguf, ollama://NAME[:TAG] or "
    "oci://HOST/REPOSITORY[:TAG]";

Error bad(std::string_view text, const std::string& why) {
  const bool whole = why.find("expected") != std::string::npos;
  return Error{Errc::kUsage, "source \"" + std::string(text) + "\": " + why +
                                 (whole ? "" : std::string("; ") + kForms)};
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ||
         c == '+';
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && std::ranges::all_of(name, is_plain);
}

/// Takes what precedes the first of `marks` from the front of `text`, with the mark.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return taken;
}

/// Takes what follows the last `mark` that comes after the last slash; empty if there is none.
std::string_view take_after(std::string_view& text, char mark) {
  const std::size_t at = text.rfind(mark);
  const std::size_t slash = text.rfind('/');
  if (at == std::string_view::npos || (slash != std::string_view::npos && at < slash)) return {};
  const std::string_view taken = text.substr(at + 1);
  text = text.substr(0, at);
  return taken;
}

/// Returns what is wrong with a host and its port, or nothing.
std::string wrong_host(std::string_view host) {
  if (host.empty()) return "the host is missing";
  if (host.front() == '.') return "the host has an odd character";
  if (host.find('@') != std::string_view::npos) {
    return "user and password do not belong into a URL, which is shown in lists";
  }
  const bool good = std::ranges::all_of(
      host, [](char c) { return is_plain(c) || c == ':' || c == '[' || c == ']'; });
  return good ? std::string() : "the host has an odd character";
}

/// Returns the base URL of a host: https, and http for this machine.
std::string base_of(std::string_view host) {
  return (is_loopback_url(host) ? "http://" : "https://") + std::string(host);
}

/// Removes a scheme or a host by which the hub is known; false if the text begins otherwise.
bool take_hub(std::string_view& text) {
  constexpr std::string_view kHubs[] = {
      "https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/", "hf://", "hf:"};
  for (const std::string_view hub : kHubs) {
    if (!text.starts_with(hub)) continue;
    text.remove_prefix(hub.size());
    return true;
  }
  return false;
}

Result<Source> parse_hub(std::string_view whole, std::string_view rest, std::string_view hub) {
  Source source;
  source.kind = SourceKind::kHub;
  source.base = std::string(hub.empty() ? kHubBase : hub);
  while (source.base.ends_with('/')) source.base.pop_back();
  std::string_view variant = rest;
  rest = take_until(variant, ':');
  source.variant = std::string(variant);
  std::string_view revision = rest;
  rest = take_until(revision, '@');
  source.reference = std::string(revision);
  if (source.reference.empty()) source.reference = "main";
  source.repository = std::string(rest);
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos || !is_plain_name(rest.substr(0, slash)) ||
      !is_plain_name(rest.substr(slash + 1))) {
    return bad(whole, "expected hf.co/ORG/REPO[@REVISION][:QUANT]");
  }
  if (!is_plain_path(source.reference) ||
      (!source.variant.empty() && !is_plain_path(source.variant))) {
    return bad(whole, "the revision or the quantization has an odd character");
  }
  return source;
}

/// Takes "#sha256=HEX" from the end of a URL.
Result<std::string> take_hash(std::string_view whole, std::string_view& url) {
  const std::size_t at = url.find('#');
  if (at == std::string_view::npos) return std::string();
  const std::string hash = lower_ascii(url.substr(at + 1));
  url = url.substr(0, at);
  constexpr std::string_view kName = "sha256=";
  if (!hash.starts_with(kName) || !is_lower_hex(std::string_view(hash).substr(kName.size()), 64)) {
    return bad(whole, "after # expected sha256= and 64 hexadecimal digits");
  }
  return hash.substr(kName.size());
}

Result<Source> parse_file(std::string_view whole) {
  Source source;
  std::string_view url = whole;
  HOLDFAST_TRY(source.sha256, take_hash(whole, url));
  if (url.starts_with("http://") && !is_loopback_url(url)) {
    return bad(whole, "plain http is for this machine alone; expected https");
  }
  const std::size_t slashes = url.find("://") + 3;
  const std::string_view host = url.substr(slashes, url.find_first_of("/?", slashes) - slashes);
  if (const std::string wrong = wrong_host(host); !wrong.empty()) return bad(whole, wrong);
  const std::string_view path = url.substr(0, url.find('?'));
  if (!lower_ascii(path).ends_with(".gguf")) {
    return bad(whole,
               "expected a path that ends in .gguf; a folder of Hugging Face is "
               "hf.co/ORG/REPO");
  }
  const bool printable =
      std::ranges::all_of(url, [](char c) { return c > 0x20 && c < 0x7f && c != '"'; });
  if (!printable) return bad(whole, "a character that a URL writes as %XX");
  source.url = std::string(url);
  return source;
}

/// Checks repository and tag of a registry.
Result<Source> good_registry(std::string_view whole, Source source) {
  if (!is_plain_path(source.repository)) return bad(whole, "the repository has an odd character");
  const std::string_view reference = source.reference;
  const bool digest =
      reference.starts_with("sha256:") && is_lower_hex(reference.substr(7), kSha256Digits);
  if (!digest && !is_plain_name(reference)) {
    return bad(whole, "the tag has an odd character; a digest is sha256: and 64 digits");
  }
  return source;
}

/// Takes "@sha256:HEX" or ":TAG" from the end.
std::string take_reference(std::string_view& rest) {
  const std::size_t at = rest.find('@');
  if (at != std::string_view::npos) {
    const std::string_view digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    return std::string(digest);
  }
  const std::string_view tag = take_after(rest, ':');
  return tag.empty() ? "latest" : std::string(tag);
}

Result<Source> parse_oci(std::string_view whole, std::string_view rest) {
  Source source;
  source.kind = SourceKind::kOci;
  const std::string_view host = take_until(rest, '/');
  if (const std::string wrong = wrong_host(host); !wrong.empty()) return bad(whole, wrong);
  source.base = base_of(host);
  source.reference = take_reference(rest);
  source.repository = std::string(rest);
  return good_registry(whole, std::move(source));
}

/// True if the first of several parts of a name is a host: it has a dot or a port.
bool begins_with_host(std::string_view rest) {
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view first = rest.substr(0, slash);
  return first.find_first_of(".:[") != std::string_view::npos || first == "localhost";
}

Result<Source> parse_ollama(std::string_view whole, std::string_view rest) {
  Source source;
  source.kind = SourceKind::kOllama;
  std::string_view host = kOllamaHost;
  if (begins_with_host(rest)) host = take_until(rest, '/');
  if (const std::string wrong = wrong_host(host); !wrong.empty()) return bad(whole, wrong);
  source.base = base_of(host);
  source.reference = take_reference(rest);
  source.repository = std::string(rest);
  if (rest.find('/') == std::string_view::npos) source.repository = "library/" + source.repository;
  return good_registry(whole, std::move(source));
}

/// Removes an ending by which repositories of one file format are named.
std::string without_format(std::string name) {
  constexpr std::string_view kEnding = "-gguf";
  if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  return name;
}

std::string last_part(std::string_view path) {
  return lower_ascii(path.substr(path.rfind('/') + 1));
}

std::string without_gguf(std::string name) {
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name;
}

}  // namespace

Result<Source> parse_source(std::string_view text, std::string_view hub) {
  if (text.empty() || text.size() > kSourceBytesMax) return bad(text.substr(0, 80), kForms);
  std::string_view rest = text;
  if (take_hub(rest)) return parse_hub(text, rest, hub);
  if (text.starts_with("https://") || text.starts_with("http://")) return parse_file(text);
  if (text.starts_with("ollama://")) return parse_ollama(text, text.substr(9));
  if (text.starts_with("oci://")) return parse_oci(text, text.substr(6));
  return bad(text, kForms);
}

std::string to_text(const Source& source) {
  const std::string_view host =
      std::string_view(source.base)
          .substr(std::min(source.base.size(), source.base.find("//") + 2));
  const char mark = source.reference.starts_with("sha256:") ? '@' : ':';
  switch (source.kind) {
    case SourceKind::kHub:
      return std::string(kHubHost) + "/" + source.repository +
             (source.reference == "main" ? "" : "@" + source.reference) +
             (source.variant.empty() ? "" : ":" + source.variant);
    case SourceKind::kFile:
      return source.url + (source.sha256.empty() ? "" : "#sha256=" + source.sha256);
    case SourceKind::kOllama:
      return "ollama://" + std::string(host) + "/" + source.repository + mark + source.reference;
    case SourceKind::kOci:
      return "oci://" + std::string(host) + "/" + source.repository + mark + source.reference;
  }
  CHECK(false);
}

std::string default_name(const Source& source) {
  const std::string last = last_part(source.repository);
  switch (source.kind) {
    case SourceKind::kHub: {
      std::string variant = without_gguf(last_part(source.variant));
      if (lower_ascii(source.variant).ends_with(".gguf")) return variant;
      return without_format(last) + (variant.empty() ? "" : "-" + variant);
    }
    case SourceKind::kFile:
      return without_gguf(last_part(std::string_view(source.url).substr(0, source.url.find('?'))));
    case SourceKind::kOllama:
    case SourceKind::kOci:
      return source.reference == "latest" || source.reference.starts_with("sha256:")
                 ? last
                 : last + ":" + lower_ascii(source.reference);
  }
  CHECK(false);
}

bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > kPathBytesMax) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    if (!is_plain_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace holdfast::pull
