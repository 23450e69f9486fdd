#include "shared/grammar/unicode_property.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>

namespace holdfast::grammar {
namespace {

/// Returns the letters of a general category: "L" for "Letter". Other names, its letters too, are
/// unchanged.
std::string short_category(const std::string& name) {
  static const std::map<std::string, std::string> names = {
      {"Letter", "L"},
      {"Uppercase_Letter", "Lu"},
      {"Lowercase_Letter", "Ll"},
      {"Titlecase_Letter", "Lt"},
      {"Modifier_Letter", "Lm"},
      {"Other_Letter", "Lo"},
      {"Mark", "M"},
      {"Combining_Mark", "M"},
      {"Nonspacing_Mark", "Mn"},
      {"Spacing_Mark", "Mc"},
      {"Enclosing_Mark", "Me"},
      {"Number", "N"},
      {"Decimal_Number", "Nd"},
      {"digit", "Nd"},
      {"Letter_Number", "Nl"},
      {"Other_Number", "No"},
      {"Punctuation", "P"},
      {"punct", "P"},
      {"Connector_Punctuation", "Pc"},
      {"Dash_Punctuation", "Pd"},
      {"Open_Punctuation", "Ps"},
      {"Close_Punctuation", "Pe"},
      {"Initial_Punctuation", "Pi"},
      {"Final_Punctuation", "Pf"},
      {"Other_Punctuation", "Po"},
      {"Symbol", "S"},
      {"Math_Symbol", "Sm"},
      {"Currency_Symbol", "Sc"},
      {"Modifier_Symbol", "Sk"},
      {"Other_Symbol", "So"},
      {"Separator", "Z"},
      {"Space_Separator", "Zs"},
      {"Line_Separator", "Zl"},
      {"Paragraph_Separator", "Zp"},
      {"Other", "C"},
      {"Control", "Cc"},
      {"cntrl", "Cc"},
      {"Format", "Cf"},
      {"Private_Use", "Co"},
      {"Unassigned", "Cn"},
  };
  const auto at = names.find(name);
  return at == names.end() ? name : at->second;
}

/// Returns all code points for which `is` holds.
template <class Is>
CharSet set_where(Is is) {
  CharSet out;
  for (char32_t point = 0; point <= kCodeMax; ++point) {
    if (!is(static_cast<utf8proc_int32_t>(point))) continue;
    if (!out.empty() && out.back().hi + 1 == point) {
      out.back().hi = point;
    } else {
      out.push_back({point, point});
    }
  }
  return normalised(std::move(out));
}

std::optional<CharSet> of_category(const std::string& name) {
  static const char* const all[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                    "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                    "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  std::array<bool, std::size(all)> selected{};
  bool found = false;
  for (std::size_t i = 0; i < std::size(all); ++i) {
    selected[i] = std::string(all[i]).rfind(name, 0) == 0;
    found = found || selected[i];
  }
  if (!found || name.empty()) return std::nullopt;
  return set_where([&](utf8proc_int32_t point) {
    return selected[static_cast<std::size_t>(utf8proc_category(point))];
  });
}

/// Letters of the scripts that patterns name, as in Unicode 15.
const std::map<std::string, CharSet> kScripts = {
    {"Latin", {{0x41, 0x5A},       {0x61, 0x7A},      {0xAA, 0xAA},       {0xBA, 0xBA},
               {0xC0, 0xD6},       {0xD8, 0xF6},      {0xF8, 0x2B8},      {0x2E0, 0x2E4},
               {0x1D00, 0x1D25},   {0x1D2C, 0x1D5C},  {0x1D62, 0x1D65},   {0x1D6B, 0x1D77},
               {0x1D79, 0x1DBE},   {0x1E00, 0x1EFF},  {0x2071, 0x2071},   {0x207F, 0x207F},
               {0x2090, 0x209C},   {0x212A, 0x212B},  {0x2132, 0x2132},   {0x214E, 0x214E},
               {0x2160, 0x2188},   {0x2C60, 0x2C7F},  {0xA722, 0xA787},   {0xA78B, 0xA7CA},
               {0xA7D0, 0xA7D1},   {0xA7D3, 0xA7D3},  {0xA7D5, 0xA7D9},   {0xA7F2, 0xA7FF},
               {0xAB30, 0xAB5A},   {0xAB5C, 0xAB64},  {0xAB66, 0xAB69},   {0xFB00, 0xFB06},
               {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},  {0x10780, 0x10785}, {0x10787, 0x107B0},
               {0x107B2, 0x107BA}, {0x1DF00, 0x1DF1E}}},
    {"Greek",
     {{0x370, 0x373},    {0x375, 0x377},   {0x37A, 0x37D},   {0x37F, 0x37F},     {0x384, 0x384},
      {0x386, 0x386},    {0x388, 0x38A},   {0x38C, 0x38C},   {0x38E, 0x3A1},     {0x3A3, 0x3E1},
      {0x3F0, 0x3FF},    {0x1D26, 0x1D2A}, {0x1D5D, 0x1D61}, {0x1D66, 0x1D6A},   {0x1DBF, 0x1DBF},
      {0x1F00, 0x1F15},  {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},
      {0x1F59, 0x1F59},  {0x1F5B, 0x1F5B}, {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},
      {0x1FB6, 0x1FC4},  {0x1FC6, 0x1FD3}, {0x1FD6, 0x1FDB}, {0x1FDD, 0x1FEF},   {0x1FF2, 0x1FF4},
      {0x1FF6, 0x1FFE},  {0x2126, 0x2126}, {0xAB65, 0xAB65}, {0x10140, 0x1018E}, {0x101A0, 0x101A0},
      {0x1D200, 0x1D245}}},
    {"Cyrillic",
     {{0x400, 0x484},
      {0x487, 0x52F},
      {0x1C80, 0x1C88},
      {0x1D2B, 0x1D2B},
      {0x1D78, 0x1D78},
      {0x2DE0, 0x2DFF},
      {0xA640, 0xA69F},
      {0xFE2E, 0xFE2F}}},
    {"Han", {{0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
             {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
             {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
             {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B738}, {0x2B740, 0x2B81D},
             {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2F800, 0x2FA1D}, {0x30000, 0x3134A}}},
    {"Hiragana",
     {{0x3041, 0x3096},
      {0x309D, 0x309F},
      {0x1B001, 0x1B11F},
      {0x1B150, 0x1B152},
      {0x1F200, 0x1F200}}},
    {"Katakana",
     {{0x30A1, 0x30FA},
      {0x30FD, 0x30FF},
      {0x31F0, 0x31FF},
      {0x32D0, 0x32FE},
      {0x3300, 0x3357},
      {0xFF66, 0xFF6F},
      {0xFF71, 0xFF9D},
      {0x1AFF0, 0x1AFF3},
      {0x1AFF5, 0x1AFFB},
      {0x1AFFD, 0x1AFFE},
      {0x1B000, 0x1B000},
      {0x1B120, 0x1B122},
      {0x1B164, 0x1B167}}},
    {"Hangul",
     {{0x1100, 0x11FF},
      {0x302E, 0x302F},
      {0x3131, 0x318E},
      {0x3200, 0x321E},
      {0x3260, 0x327E},
      {0xA960, 0xA97C},
      {0xAC00, 0xD7A3},
      {0xD7B0, 0xD7C6},
      {0xD7CB, 0xD7FB},
      {0xFFA0, 0xFFBE},
      {0xFFC2, 0xFFC7},
      {0xFFCA, 0xFFCF},
      {0xFFD2, 0xFFD7},
      {0xFFDA, 0xFFDC}}},
};

std::optional<CharSet> of_script(const std::string& name) {
  const auto at = kScripts.find(name);
  return at == kScripts.end() ? std::nullopt : std::optional(at->second);
}

std::optional<CharSet> binary_property(const std::string& name) {
  static const CharSet component = {
      {'#', '#'},         {'*', '*'},         {'0', '9'},         {0x200D, 0x200D},
      {0x20E3, 0x20E3},   {0xFE0F, 0xFE0F},   {0x1F1E6, 0x1F1FF}, {0x1F3FB, 0x1F3FF},
      {0x1F9B0, 0x1F9B3}, {0xE0020, 0xE007F},
  };
  if (name == "Any") return negated({});
  if (name == "ASCII") return CharSet{{0, 0x7F}};
  if (name == "Emoji_Component" || name == "EComp") return component;
  if (name == "Extended_Pictographic" || name == "ExtPict") {
    return set_where([](utf8proc_int32_t point) {
      return utf8proc_get_property(point)->boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
    });
  }
  return std::nullopt;
}

}  // namespace

std::optional<CharSet> unicode_property(const std::string& name) {
  const std::size_t equals = name.find('=');
  const std::string kind = name.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : name.substr(equals + 1);
  if (kind == "Script" || kind == "sc") return of_script(value);
  if (kind == "General_Category" || kind == "gc") return of_category(short_category(value));
  if (equals != std::string::npos) return std::nullopt;
  const auto binary = binary_property(name);
  return binary ? binary : of_category(short_category(name));
}

}  // namespace holdfast::grammar
