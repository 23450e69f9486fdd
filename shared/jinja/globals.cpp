// range, dict, namespace, joiner, raise_exception and strftime_now.

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "shared/jinja/builtins.h"

namespace holdfast::text::jinja {
namespace {

std::int64_t range_bound(const Value& v) {
  if (v.is_number() && !v.is(Kind::kFloat)) return v.as_int();
  throw TemplateError(std::string("'") + v.type_name() +
                      "' object cannot be interpreted as an integer");
}

/// The arguments of range.
struct RangeBounds {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

RangeBounds range_bounds(const Args& args) {
  RangeBounds bounds;
  const std::size_t n = args.positional.size();
  if (n < 1 || n > 3) throw TemplateError("range takes one to three arguments");
  if (n > 1) bounds.start = range_bound(args.positional[0]);
  bounds.end = range_bound(args.positional[n == 1 ? 0 : 1]);
  if (n > 2) bounds.step = range_bound(args.positional[2]);
  if (bounds.step == 0) throw TemplateError("range() arg 3 must not be zero");
  return bounds;
}

Value make_range(const Args& args) {
  const auto [start, end, step] = range_bounds(args);
  List out;
  for (std::int64_t i = start; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(out.size()) >= kRangeMax) {
      throw TemplateError("Range too big. The sandbox blocks ranges larger than 100000.");
    }
    out.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(out));
}

Value make_strftime(const Args& args, const std::string& date) {
  if (args.positional.empty()) throw TemplateError("strftime_now needs a format");
  std::tm t{};
  if (std::sscanf(date.c_str(), "%d-%d-%d", &t.tm_year, &t.tm_mon, &t.tm_mday) != 3) {
    throw TemplateError("the date is not YYYY-MM-DD");
  }
  t.tm_year -= 1900;
  t.tm_mon -= 1;
  t.tm_hour = 12;  // noon: the same day in every time zone
  timegm(&t);      // sets the day of the week and of the year
  std::string buffer(512, '\0');
  const std::string format =
      args.positional[0].to_string() + " ";  // so that an empty result is not a failure
  const std::size_t n = std::strftime(buffer.data(), buffer.size(), format.c_str(), &t);
  if (n == 0) throw TemplateError("strftime_now: the result is too long");
  return Value::string(buffer.substr(0, n - 1));
}

/// Makes a joiner: the first call returns "", later ones the separator.
Value make_joiner(const Args& args) {
  const Value* given = args.get(0, "sep");
  const Value separator = given != nullptr ? *given : Value::string(", ");
  return Value::function([separator, used = std::make_shared<bool>(false)](const Args&) {
    return std::exchange(*used, true) ? separator : Value::string("");
  });
}

Dict named_or_first(const Args& args) {
  Dict items;
  if (args.positional.size() > 1) throw TemplateError("dict expected at most 1 argument");
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::kDict)) {
      items = from.as_dict();
    } else {
      const List pairs = iterate(from);
      for (const Value& item : pairs) {
        const List pair = iterate(item);
        if (pair.size() != 2) throw TemplateError("dict: each item must be a pair");
        items.set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [k, v] : args.named.items()) items.set(k, v);
  return items;
}

}  // namespace

Value global_function(std::string_view name, const std::string& date) {
  if (name == "range") return Value::function(make_range);
  if (name == "joiner") return Value::function(make_joiner);
  if (name == "dict") {
    return Value::function([](const Args& args) { return Value::dict(named_or_first(args)); });
  }
  if (name == "namespace") {
    return Value::function(
        [](const Args& args) { return Value::name_space(named_or_first(args)); });
  }
  if (name == "raise_exception") {
    return Value::function([](const Args& args) -> Value {
      throw TemplateError(args.positional.empty() ? "the template refused the messages"
                                                  : args.positional[0].to_string());
    });
  }
  if (name == "strftime_now") {
    return Value::function([date](const Args& args) { return make_strftime(args, date); });
  }
  return Value();
}

}  // namespace holdfast::text::jinja
