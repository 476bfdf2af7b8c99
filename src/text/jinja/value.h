// The values of a template: Python's, as far as a template can see them.
//
// A Value is 16 bytes: small ones inside, the rest counted references to objects that live on the Heap of one render.
// Only the render's own thread touches them. Freeing never recurses, and cycles (a namespace that holds itself) go with
// the Heap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/text.h"

namespace sparkx::jinja {

class Heap;
class Interpreter;
struct Object;
struct Expr;
struct Stmt;

enum class Kind : std::uint8_t {
  missing,  // no value at all: a slot that was never set, an argument that was not given
  none,
  boolean,
  integer,  // in 64 bits
  floating,
  // objects
  undefined,
  big_integer,
  string,
  list,
  tuple,
  dict,
  view,  // of a dict: keys, values, items
  range,
  iterator,
  space,     // namespace()
  function,  // built in, perhaps bound to a value
  macro,
  loop,
  block,  // self.name
  self,
  cycler,
  joiner,
  scope,  // an Activation, which no template sees
};

struct Object {
  explicit Object(Kind k) : kind(k) {}
  virtual ~Object() = default;
  virtual void clear() {}  // drops all references to other objects

  const Kind kind;
  std::uint32_t references = 0;
  Heap* heap = nullptr;
  std::size_t bytes = 0;  // charged to the budget
  Object* previous = nullptr;
  Object* next = nullptr;
};

class Value {
 public:
  Value() = default;  // missing
  Value(const Value& other) : kind_(other.kind_), data_(other.data_) {
    if (is_object()) ++data_.object->references;
  }
  Value(Value&& other) noexcept : kind_(other.kind_), data_(other.data_) { other.kind_ = Kind::missing; }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Value() {
    if (is_object() && --data_.object->references == 0) release();
  }

  static Value none() { return Value(Kind::none); }
  static Value boolean(bool value) {
    Value result(Kind::boolean);
    result.data_.integer = value;
    return result;
  }
  static Value integer(std::int64_t value) {
    Value result(Kind::integer);
    result.data_.integer = value;
    return result;
  }
  static Value floating(double value) {
    Value result(Kind::floating);
    result.data_.floating = value;
    return result;
  }
  explicit Value(Object* object) : kind_(object->kind) {
    data_.object = object;
    ++object->references;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_object() const { return kind_ >= Kind::undefined; }
  bool is_integral() const { return is(Kind::integer) || is(Kind::boolean) || is(Kind::big_integer); }
  bool is_small_integer() const { return is(Kind::integer) || is(Kind::boolean); }
  bool is_number() const { return is_integral() || is(Kind::floating); }
  bool same(const Value& other) const;  // Python's `is`

  bool as_bool() const { return data_.integer != 0; }
  std::int64_t as_integer() const { return data_.integer; }  // of a small integer or boolean
  double as_float() const { return data_.floating; }
  Object* object() const { return data_.object; }
  template <typename T>
  T& as() const {
    return static_cast<T&>(*data_.object);
  }
  const Text& text() const;  // of a string

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  void release();

  Kind kind_ = Kind::missing;
  union {
    std::int64_t integer;
    double floating;
    Object* object;
  } data_ = {0};
};

using Values = std::vector<Value>;

// The arguments of a call: by position, and by name in the order given.
struct Call {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Native = Value (*)(Interpreter&, const Value& self, Call& call);

struct UndefinedObject : Object {
  UndefinedObject() : Object(Kind::undefined) {}
  void clear() override { key = Value(); }
  std::string message() const;
  std::string hint;   // the message, when there is a special one
  std::string owner;  // "dict object"; empty for a variable
  std::string name;   // of the variable or attribute
  Value key;          // a subscript that is no string
  Fault fault = Fault::undefined_error;
};

struct StringObject : Object {
  StringObject(Text t, bool m) : Object(Kind::string), text(std::move(t)), markup(m) {}
  std::size_t chars() const;  // code points
  bool ascii() const { return chars() == text.size(); }
  const Text text;
  const bool markup;  // safe for HTML: markupsafe's Markup

 private:
  mutable std::size_t chars_ = SIZE_MAX;
};

struct SequenceObject : Object {  // list, tuple
  SequenceObject(Kind k, Values v) : Object(k), items(std::move(v)) {}
  void clear() override { items.clear(); }
  Values items;
  bool group = false;  // a tuple of groupby: .grouper and .list
};

struct DictObject : Object {
  DictObject() : Object(Kind::dict) {}
  void clear() override { entries.clear(); }
  std::vector<std::pair<Value, Value>> entries;                   // in the order of insertion
  std::unordered_multimap<std::size_t, std::uint32_t> positions;  // by hash, once there are more than a few
};

struct ViewObject : Object {
  enum class What { keys, values, items };
  ViewObject(Value d, What w) : Object(Kind::view), dict(std::move(d)), what(w) {}
  void clear() override { dict = Value(); }
  Value dict;
  What what;
};

struct RangeObject : Object {
  RangeObject(std::int64_t first, std::int64_t n, std::int64_t by, std::int64_t end)
      : Object(Kind::range), start(first), length(n), step(by), stop(end) {}
  std::int64_t at(std::int64_t index) const { return start + index * step; }
  std::int64_t start, length, step, stop;
};

struct IteratorObject : Object {
  explicit IteratorObject(const char* n) : Object(Kind::iterator), type_name(n) {}
  virtual bool next(Interpreter& interpreter, Value& out) = 0;
  const char* type_name;
};

struct SpaceObject : Object {
  SpaceObject() : Object(Kind::space) {}
  void clear() override { attributes = Value(); }
  Value attributes;  // a dict
};

struct FunctionObject : Object {
  FunctionObject(const char* n, Native f, Value s) : Object(Kind::function), name(n), call(f), self(std::move(s)) {}
  void clear() override { self = Value(); }
  const char* name;
  Native call;
  Value self;
};

// The variables of one scope while it runs: macros defined inside keep it alive.
struct Activation : Object {
  Activation(Activation* p, int slots_) : Object(Kind::scope), parent(p), slots(slots_) {
    if (parent != nullptr) ++parent->references;
  }
  ~Activation() override { Activation::clear(); }
  void clear() override;
  Activation* parent;
  Values slots;
};

struct MacroObject : Object {
  MacroObject(const Stmt* s, Activation* a) : Object(Kind::macro), macro(s), closure(Value(a)) {}
  void clear() override { closure = Value(); }
  const Stmt* macro;
  Value closure;  // an Activation
};

struct CyclerObject : Object {
  explicit CyclerObject(Values v) : Object(Kind::cycler), items(std::move(v)) {}
  void clear() override { items.clear(); }
  Values items;
  std::size_t position = 0;
};

struct JoinerObject : Object {
  explicit JoinerObject(Value s) : Object(Kind::joiner), separator(std::move(s)) {}
  void clear() override { separator = Value(); }
  Value separator;
  bool used = false;
};

// Owns every object of a render.
class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // `extra` counts what the object holds outside itself. The Value keeps it alive.
  template <typename T, typename... Args>
  Value make(std::size_t extra, Args&&... args) {
    budget_.require(sizeof(T) + extra);
    return adopt(new T(std::forward<Args>(args)...), sizeof(T) + extra);
  }
  Value string(Text text, bool markup = false);
  Value list(Values items);
  Value tuple(Values items);

  void release(Object* object);

 private:
  Value adopt(Object* object, std::size_t bytes);
  void unlink(Object* object);

  Budget& budget_;
  Object* first_ = nullptr;
  Object* dead_ = nullptr;  // waiting to be freed, chained by `next`
  bool freeing_ = false;
};

// Python's name of the type: "str", "dict", ...
const char* type_name(const Value& value);
// As Jinja's messages call the object: "dict object", "None".
std::string object_type_repr(const Value& value);

}  // namespace sparkx::jinja
