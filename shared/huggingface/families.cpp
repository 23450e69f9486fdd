// Finds families, and names of tensors in both directions, in the table.

#include "shared/huggingface/families.h"

namespace holdfast::huggingface {
namespace {

/// The numbers in the places of "%" and "#".
struct Numbers {
  std::string layer;
  std::string expert;
};

/// Returns the number at the start of a name: no sign, no leading zeros. "" if there is none.
std::string_view number_at(std::string_view text) {
  const std::size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
  return n > 4 || (n > 1 && text[0] == '0') ? std::string_view() : text.substr(0, n);
}

/// Matches a name. A "*" at the end of a pattern matches anything.
std::optional<Numbers> match(std::string_view pattern, std::string_view name) {
  Numbers out;
  while (!pattern.empty()) {
    const char c = pattern[0];
    pattern.remove_prefix(1);
    if (c == '*') return out;
    if (c != '%' && c != '#') {
      if (!name.starts_with(c)) return std::nullopt;
      name.remove_prefix(1);
      continue;
    }
    const std::string_view digits = number_at(name);
    if (digits.empty()) return std::nullopt;
    (c == '%' ? out.layer : out.expert) = digits;
    name.remove_prefix(digits.size());
  }
  return name.empty() ? std::optional<Numbers>(std::move(out)) : std::nullopt;
}

std::string fill(std::string_view pattern, const std::string& layer) {
  std::string out(pattern);
  const std::size_t at = out.find('%');
  if (at != std::string::npos) out.replace(at, 1, layer);
  return out;
}

/// Returns the name with the prefix that the rules use.
std::string canonical(const Family& family, std::string_view name) {
  for (const PrefixRule& rule : family.prefixes) {
    if (!name.starts_with(rule.from)) continue;
    return rule.to + std::string(name.substr(std::string_view(rule.from).size()));
  }
  return std::string(name);
}

}  // namespace

const Family* family_of_type(std::string_view model_type) {
  for (const Family& family : all_families()) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

const Family* family_of_file(const gguf::File& file) {
  // Architectures of several families, by a key that only one of them has; the last one counts.
  static constexpr struct {
    std::string_view architecture;
    const char* suffix;
    std::string_view type;
  } kByKey[] = {{"llama", ".attention.sliding_window", "mistral"},
                {"llama", ".expert_count", "mixtral"},
                {"olmo2", ".attention.sliding_window", "olmo3"}};
  const std::string architecture(file.get_string("general.architecture").value_or(""));
  std::string_view type;
  for (const auto& rule : kByKey) {
    if (architecture != rule.architecture) continue;
    if (file.get_u64(architecture + rule.suffix).value_or(0) > 0) type = rule.type;
  }
  if (architecture == "granitemoe" && file.tensor("blk.0.ffn_up_shexp.weight") != nullptr) {
    type = "granitemoeshared";
  }
  if (!type.empty()) return family_of_type(type);
  for (const Family& family : all_families()) {
    if (architecture == family.architecture) return &family;
  }
  return nullptr;
}

std::string family_names() {
  std::string out;
  for (const Family& family : all_families()) {
    out += (out.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return out;
}

std::vector<Named> to_gguf(const Family& family, std::string_view name) {
  const std::string canonical_name = canonical(family, name);
  std::vector<Named> out;
  for (const TensorRule& rule : family.tensors) {
    const auto numbers = match(rule.huggingface, canonical_name);
    if (!numbers) continue;
    const std::int64_t expert = numbers->expert.empty() ? -1 : std::stoll(numbers->expert);
    out.push_back({fill(rule.gguf, numbers->layer), rule.change, rule.part, rule.parts, expert});
  }
  return out;
}

std::optional<Named> to_huggingface(const Family& family, std::string_view name) {
  for (const TensorRule& rule : family.tensors) {
    const auto numbers = match(rule.gguf, name);
    if (!numbers) continue;
    return Named{fill(rule.huggingface, numbers->layer), rule.change, rule.part, rule.parts};
  }
  return std::nullopt;
}

const LeftOut* left_out(const Family& family, std::string_view name, std::int64_t layers) {
  const std::string canonical_name = canonical(family, name);
  static const LeftOut kNext = {"model.layers.%.*", "layers that draft tokens"};
  if (const auto numbers = match(kNext.name, canonical_name); numbers && family.next_layers) {
    if (std::stoll(numbers->layer) >= layers) return &kNext;
  }
  for (const LeftOut& rule : family.left_out) {
    if (match(rule.name, canonical_name)) return &rule;
  }
  return nullptr;
}

}  // namespace holdfast::huggingface
