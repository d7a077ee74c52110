/** Levels that SYNC_LOG_LEVEL accepts. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
/** Least severe level that is logged. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A change that ends by itself. */
export interface TemporaryLevel {
  /** Null: all that have no level of their own. */
  readonly component: string | null;
  readonly level: LogLevel;
  /** ISO 8601, UTC. */
  readonly until: string;
}

/** The levels at a moment. */
export interface LogLevelsView {
  /** Of all components that have none of their own. */
  readonly level: LogLevel;
  /** The level in effect of every component that has logged, or may. */
  readonly components: Readonly<Record<string, LogLevel>>;
  readonly temporary: readonly TemporaryLevel[];
}

/** What a change asks for. */
export interface LevelChange {
  /** `default`: as at the start. Without a component, that ends every change. */
  readonly level: LogLevel | 'default';
  readonly component?: string | undefined;
  /** After this time the level is again what it was before. Default: it stays. */
  readonly forMs?: number | undefined;
}

/** What loggers of one component ask before each line. */
export interface LevelCell {
  /** Index in {@link LOG_LEVELS} of the least severe level that is logged. */
  threshold: number;
}

/** The level of one component, or of all that have none of their own. */
interface Scope {
  lasting: LogLevel | undefined;
  temporary: { readonly level: LogLevel; readonly untilMs: number; readonly timer: NodeJS.Timeout } | undefined;
}

/** The levels of a program's log, one for each component, which change while it runs. */
export class LogLevels {
  readonly #atStart: LogLevel;
  readonly #general: Scope;
  readonly #scopes = new Map<string, Scope>();
  /** By component; '' for what belongs to none. */
  readonly #cells = new Map<string, LevelCell>();

  constructor(level: LogLevel) {
    this.#atStart = level;
    this.#general = { lasting: level, temporary: undefined };
  }

  /** The components that there are, in order. */
  get components(): readonly string[] {
    return [...this.#cells.keys()].filter((name) => name !== '').sort();
  }

  /** The cell of a component, which is listed from now on. */
  cell(component: string): LevelCell {
    let cell = this.#cells.get(component);
    if (cell === undefined) {
      cell = { threshold: LOG_LEVELS.indexOf(this.#levelOf(component)) };
      this.#cells.set(component, cell);
    }
    return cell;
  }

  change({ level, component, forMs }: LevelChange): void {
    if (level === 'default') this.#reset(component);
    else this.#set(component, level, forMs);
    this.#apply();
  }

  /** Turns `debug` on for all that have no level of their own, or off again; returns the level. */
  toggleDebug(): LogLevel {
    const calm = this.#atStart === 'debug' ? 'info' : this.#atStart;
    this.change({ level: levelOf(this.#general) === 'debug' ? calm : 'debug' });
    return levelOf(this.#general) ?? this.#atStart;
  }

  view(): LogLevelsView {
    const scopes = [[null, this.#general] as const, ...this.#scopes];
    return {
      level: levelOf(this.#general) ?? this.#atStart,
      components: Object.fromEntries(this.components.map((name) => [name, this.#levelOf(name)])),
      temporary: scopes.flatMap(([component, { temporary }]) =>
        temporary === undefined
          ? []
          : [{ component, level: temporary.level, until: new Date(temporary.untilMs).toISOString() }],
      ),
    };
  }

  #levelOf(component: string): LogLevel {
    const own = this.#scopes.get(component);
    return (own === undefined ? undefined : levelOf(own)) ?? levelOf(this.#general) ?? this.#atStart;
  }

  #set(component: string | undefined, level: LogLevel, forMs: number | undefined): void {
    const scope = this.#scopeOf(component);
    clearTimeout(scope.temporary?.timer);
    scope.temporary = undefined;
    if (forMs === undefined) {
      scope.lasting = level;
      return;
    }
    const timer = setTimeout(() => {
      scope.temporary = undefined;
      this.#apply();
    }, forMs).unref(); // nothing waits for it
    scope.temporary = { level, untilMs: Date.now() + forMs, timer };
  }

  #reset(component: string | undefined): void {
    const scopes = component === undefined ? [...this.#scopes.values(), this.#general] : [this.#scopeOf(component)];
    for (const scope of scopes) {
      clearTimeout(scope.temporary?.timer);
      scope.temporary = undefined;
      scope.lasting = scope === this.#general ? this.#atStart : undefined;
    }
  }

  #scopeOf(component: string | undefined): Scope {
    if (component === undefined) return this.#general;
    const scope = this.#scopes.get(component) ?? { lasting: undefined, temporary: undefined };
    this.#scopes.set(component, scope);
    return scope;
  }

  #apply(): void {
    for (const [name, cell] of this.#cells) cell.threshold = LOG_LEVELS.indexOf(this.#levelOf(name));
  }
}

function levelOf({ temporary, lasting }: Scope): LogLevel | undefined {
  return temporary?.level ?? lasting;
}
