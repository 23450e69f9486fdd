#include "shared/grammar/schema_formats.h"

#include <map>

namespace holdfast::grammar {
namespace {

/// Matches RFC 3339 dates with real lengths of months, years 1000 to 9999.
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

const std::string kPathCharacter = "[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}";

std::string query_and_fragment() {
  return "(\\?(" + kPathCharacter + "|[/?])*)?(#(" + kPathCharacter + "|[/?])*)?";
}

std::string uri() {
  return "[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\\d{1,5})?(/(" +
         kPathCharacter + ")*)*" + query_and_fragment();
}

/// Matches a URI, or a path that cannot be read as having a scheme.
std::string uri_reference() {
  const std::string first = "[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2}";
  return "(" + uri() + "|/?((" + first + ")+(/(" + kPathCharacter + ")*)*)?" +
         query_and_fragment() + ")";
}

/// Matches sequences and classes that mean the same in every dialect of regular expressions.
std::string regex() {
  const std::string atom = "([A-Za-z0-9_ ]|\\\\[dDwWsS.]|\\[[A-Za-z0-9]+\\]|\\.)[*+?]?";
  return "\\^?(" + atom + "|\\((" + atom + ")+(\\|(" + atom + ")+)*\\)[*+?]?)*\\$?";
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
    out["idn-hostname"] = out["hostname"];
    out["idn-email"] = out["email"];
    for (const char* name : {"uri", "iri", "url"}) out[name] = uri();
    out["uri-reference"] = out["iri-reference"] = uri_reference();
    out["uri-template"] = "([A-Za-z0-9._~/?#&=:@-]|\\{[A-Za-z0-9_]+\\})*";
    const std::string pointer = "(/([^~/]|~[01])*)*";
    out["json-pointer"] = pointer;
    out["relative-json-pointer"] = "(0|[1-9]\\d{0,8})(#|" + pointer + ")";
    out["regex"] = regex();
    for (const char* version : {"1", "3", "4", "5", "6", "7", "8"}) {
      out["uuid" + std::string(version)] = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-" + std::string(version) +
                                           "[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}";
    }
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

const IntegerFormat* integer_format(const std::string& name) {
  static const IntegerFormat formats[] = {{"int8", "-128", "127"},
                                          {"int16", "-32768", "32767"},
                                          {"int32", "-2147483648", "2147483647"},
                                          {"int64", "-9223372036854775808", "9223372036854775807"},
                                          {"uint8", "0", "255"},
                                          {"uint16", "0", "65535"},
                                          {"uint32", "0", "4294967295"},
                                          {"uint64", "0", "18446744073709551615"}};
  for (const IntegerFormat& format : formats) {
    if (name == format.name) return &format;
  }
  return nullptr;
}

}  // namespace holdfast::grammar
