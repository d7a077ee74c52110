/**
 * The same object with some methods replaced, for those who wrap a part without knowing all of it. Every other method runs on
 * the object itself, so that it may be of a class with private fields.
 */
export function withOverrides<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get(object, name) {
      if (Object.hasOwn(methods, name)) return Reflect.get(methods, name);
      const value: unknown = Reflect.get(object, name, object);
      return typeof value === 'function' ? value.bind(object) : value;
    },
  });
}
