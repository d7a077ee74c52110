/** Many things that end together; more can be added until then. `await using` ends them all. */
export interface Together<T extends AsyncDisposable> extends AsyncDisposable {
  readonly all: readonly T[];
  /** Adds one and gives it back. */
  add(one: T): T;
}

/** An empty {@link Together}. */
export function together<T extends AsyncDisposable>(): Together<T> {
  const all: T[] = [];
  return {
    all,
    add: (one) => {
      all.push(one);
      return one;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(all.map((one) => one[Symbol.asyncDispose]()));
    },
  };
}
