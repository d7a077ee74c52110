/**
 * The object with some methods replaced. Every other method runs on the object itself, which may
 * have private fields.
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
