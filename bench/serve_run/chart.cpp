#include "bench/serve_run/chart.h"

#include <algorithm>
#include <cstdio>

namespace holdfast::bench {
namespace {

constexpr double kWidth = 640, kHeight = 260, kLeft = 60, kRight = 150, kTop = 34, kBottom = 34;
constexpr const char* kColours[] = {"#1f6feb", "#d1242f", "#1a7f37",
                                    "#9a6700", "#8250df", "#57606a"};

std::string format(const char* pattern, double a, double b = 0, double c = 0, double d = 0) {
  char out[256];
  std::snprintf(out, sizeof out, pattern, a, b, c, d);
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

void draw(const Chart& chart, double y0, std::string& out) {
  double top = 0;
  for (const ChartLine& line : chart.lines) {
    for (const double v : line.values) top = std::max(top, v);
  }
  if (top <= 0) top = 1;
  const double wide = kWidth - kLeft - kRight, high = kHeight - kTop - kBottom;
  const auto x_of = [&](std::size_t i) {
    const double steps = std::max<double>(1, static_cast<double>(chart.steps.size()) - 1);
    return kLeft + wide * static_cast<double>(i) / steps;
  };
  const auto y_of = [&](double v) { return y0 + kTop + high * (1 - v / top); };
  out += format("<text x=\"%g\" y=\"%g\" font-weight=\"bold\">", kLeft, y0 + 20) +
         escaped(chart.title) + "</text>\n";
  for (int i = 0; i <= 4; ++i) {
    const double v = top * i / 4;
    out += format("<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#d0d7de\"/>", kLeft,
                  y_of(v), kLeft + wide, y_of(v));
    out += format("<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.3g</text>\n", kLeft - 6,
                  y_of(v) + 4, v);
  }
  for (std::size_t i = 0; i < chart.steps.size(); ++i) {
    out += format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">", x_of(i), y0 + kHeight - 12) +
           escaped(chart.steps[i]) + "</text>\n";
  }
  for (std::size_t l = 0; l < chart.lines.size(); ++l) {
    const ChartLine& line = chart.lines[l];
    const std::string colour = kColours[l % (sizeof kColours / sizeof kColours[0])];
    std::string points;
    for (std::size_t i = 0; i < line.values.size(); ++i) {
      points += format("%g,%g ", x_of(i), y_of(line.values[i]));
      out += format("<circle cx=\"%g\" cy=\"%g\" r=\"3\" fill=\"", x_of(i), y_of(line.values[i])) +
             colour + "\"><title>" + escaped(line.name) + format(": %.4g", line.values[i]) +
             "</title></circle>";
    }
    out += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\" points=\"" +
           points + "\"/>\n";
    out += format("<text x=\"%g\" y=\"%g\" fill=\"", kLeft + wide + 10,
                  y0 + kTop + 14 + 18 * static_cast<double>(l)) +
           colour + "\">" + escaped(line.name) + "</text>\n";
  }
}

}  // namespace

std::string svg_of(const std::vector<Chart>& charts) {
  std::string out = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight * static_cast<double>(charts.size()));
  for (std::size_t i = 0; i < charts.size(); ++i) {
    draw(charts[i], kHeight * static_cast<double>(i), out);
  }
  return out + "</svg>\n";
}

}  // namespace holdfast::bench
