#include "build_info.h"

#include <sstream>
#include <string>

#include "gates.h"
#include "isa.h"
#include "names.h"

namespace rnb {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + '"';
}

// "name": {"first": 1, ...}
template <size_t n>
std::string codes(const char* name, const Code (&all)[n]) {
  std::ostringstream text;
  text << quoted(name) << ": {";
  for (size_t i = 0; i < n; ++i) text << (i ? ", " : "") << quoted(all[i].name) << ": " << all[i].code;
  text << "}";
  return text.str();
}

// "cells": {"lstm": "ifgo", ...}
std::string cells() {
  std::string text;
  for (const Code& cell : kCells)
    text += (text.empty() ? "" : ", ") + quoted(cell.name) + ": " +
            quoted(std::string(gates_of(rnb_cell(cell.code))));
  return "\"cells\": {" + text + "}";
}

template <class Strings>
std::string array(const char* name, const Strings& all) {
  std::string text = quoted(name) + ": [";
  for (size_t i = 0; i < all.size(); ++i) text += (i ? ", " : "") + quoted(all[i]);
  return text + "]";
}

std::string make() {
  const IsaState& isa = isa_state();
  std::ostringstream text;
  text << "{\"version\": " << quoted(RNNBRIDGE_VERSION) << ", \"abi\": " << RNB_ABI_VERSION
       << ", \"alignment\": " << RNB_ALIGNMENT << ", " << cells() << ", \"codes\": {"
       << codes("status", kStatuses) << ", " << codes("cell", kCells) << ", " << codes("reset", kResets)
       << ", " << codes("dtype", kDtypes) << ", " << codes("direction", kDirections) << ", "
       << codes("bias", kBiases) << ", " << codes("merge", kMerges) << ", "
       << codes("output_order", kOutputOrders) << ", " << codes("activation", kActivations)
       << "}, \"struct_sizes\": {\"rnb_activation\": " << sizeof(rnb_activation)
       << ", \"rnb_spec\": " << sizeof(rnb_spec) << ", \"rnb_sizes\": " << sizeof(rnb_sizes)
       << ", \"rnb_weights\": " << sizeof(rnb_weights)
       << ", \"rnb_forward_args\": " << sizeof(rnb_forward_args)
       << ", \"rnb_backward_args\": " << sizeof(rnb_backward_args) << "}, \"isa\": {"
       << array("compiled", isa.compiled) << ", " << array("usable", isa.usable)
       << ", \"active\": " << (isa.active ? quoted(isa.active->name) : "null") << ", "
       << array("warnings", isa.warnings) << "}}";
  return text.str();
}

}  // namespace

const char* build_info() {
  static const std::string* text = new std::string(make());
  return text->c_str();
}

}  // namespace rnb
