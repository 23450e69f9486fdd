#include "shared/grammar/schema_formats.h"

#include <map>

namespace holdfast::grammar {
namespace {

/// RFC 3339 with real lengths of months, years 1000 to 9999.
std::string date() {
  const std::string year = "[1-9]\\d{3}";
  const std::string leap =
      "([1-9]\\d(0[48]|[2468][048]|[13579][26])|(1[26]|[2468][048]|"
      "[3579][26])00)";
  return "(" + year + "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|" +
         "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|" + leap + "-02-29)";
}

std::string time() {
  return "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
}

std::string duration() {
  const std::string n = "\\d{1,9}";
  const std::string clock =
      "T(" + n + "H(" + n + "M(" + n + "S)?)?|" + n + "M(" + n + "S)?|" + n + "S)";
  const std::string days =
      "(" + n + "Y(" + n + "M(" + n + "D)?)?|" + n + "M(" + n + "D)?|" + n + "D)";
  return "P(" + days + "(" + clock + ")?|" + clock + "|" + n + "W)";
}

std::string host() {
  // No two hyphens in a row: "xn--" would promise Punycode.
  const std::string label = "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}";
  return label + "(\\." + label + "){0,2}";
}

std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  std::string out = "((" + h + ":){7}" + h + "|(" + h + ":){1,7}:|:(:" + h + "){1,7}|::";
  for (int before = 1; before <= 6; ++before) {
    const std::string left = std::to_string(before);
    const std::string right = std::to_string(7 - before);
    out += "|(" + h + ":){" + left + "}(:" + h + "){1," + right + "}";
  }
  return out + ")";
}

std::string uri() {
  const std::string c = "[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}";
  return "[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\\d{1,5})?(/(" + c +
         ")*)*(\\?(" + c + "|[/?])*)?(#(" + c + "|[/?])*)?";
}

const std::map<std::string, std::string>& patterns() {
  static const std::map<std::string, std::string> all = [] {
    const std::string octet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    const std::string word = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
    std::map<std::string, std::string> out;
    out["date"] = date();
    out["time"] = time();
    out["date-time"] = date() + "T" + time();
    out["duration"] = duration();
    out["uuid"] = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
    out["ipv4"] = octet + "(\\." + octet + "){3}";
    out["ipv6"] = ipv6();
    out["hostname"] = host();
    out["email"] = word + "(\\." + word + ")*@" + host();
    out["uri"] = uri();
    out["byte"] = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
    return out;
  }();
  return all;
}

}  // namespace

std::string format_pattern(const std::string& name) {
  const auto at = patterns().find(name);
  return at == patterns().end() ? "" : at->second;
}

bool is_free_format(const std::string& name) {
  return name == "float" || name == "double" || name == "password" || name == "binary";
}

std::string format_names() {
  std::string out;
  for (const auto& [name, pattern] : patterns()) out += name + ", ";
  return out + "int32, int64, float, double, password, binary";
}

}  // namespace holdfast::grammar
