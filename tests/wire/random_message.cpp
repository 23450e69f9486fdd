#include "random_message.h"

#include <optional>
#include <utility>

#include "shared/wire/fields.h"

namespace holdfast::wire::testing {
namespace {

std::uint64_t below(Random& random, std::uint64_t n) {
  return random() % n;
}

/// Draws a number whose magnitude is as likely as any other, so that all CBOR widths occur.
std::uint64_t any_u64(Random& random) {
  return random() >> below(random, 64);
}

struct Fill {
  Random& random;

  template <class T>
  void operator()(std::string_view, T& value) {
    fill(value);
  }
  void blob(std::string_view, std::string& value) { fill_bytes(value); }
  void blob(std::string_view, std::optional<std::string>& value) {
    if (below(random, 2) == 0) fill_bytes(value.emplace());
  }
  void fill_bytes(std::string& value) {
    value.resize(below(random, 40));
    for (char& c : value) c = static_cast<char>(random());
  }
  void fill(bool& value) { value = below(random, 2) == 0; }
  void fill(float& value) { value = static_cast<float>(static_cast<int>(below(random, 4001))) / 8; }
  void fill(double& value) { value = static_cast<double>(any_u64(random)) / 3.0; }
  void fill(Errc& value) {
    value = static_cast<Errc>(below(random, static_cast<std::uint64_t>(Errc::kInternal) + 1));
  }
  void fill(std::string& value) {
    static constexpr std::string_view kParts[] = {"a",  "Z",    "\n", "\0", "é",
                                                  "漢", "🙂", "\"", "id"};
    value.clear();
    for (std::uint64_t n = below(random, 30); n > 0; --n) value += kParts[below(random, 9)];
  }
  template <class T>
  void fill(std::optional<T>& value) {
    if (below(random, 2) == 0) fill(value.emplace());
  }
  template <class T>
  void fill(std::vector<T>& value) {
    value.resize(below(random, 5));
    for (T& element : value) fill(element);
  }
  template <class T>
  void fill(T& value) {
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(below(random, static_cast<std::uint64_t>(EnumMax<T>::value) + 1));
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(any_u64(random));
    } else {
      fields(*this, value);
    }
  }
};

template <std::size_t... I>
Message make(std::size_t type, Random& random, std::index_sequence<I...>) {
  Message message;
  ((I == type ? static_cast<void>(Fill{random}.fill(message.emplace<I>())) : static_cast<void>(0)),
   ...);
  return message;
}

}  // namespace

Message random_message(std::size_t type, Random& random) {
  return make(type, random, std::make_index_sequence<kTypes>());
}

}  // namespace holdfast::wire::testing
