/** The heads of a table: the text of each column, with its classes where it has some. */
export function Heads({ of }: { readonly of: readonly (string | readonly [text: string, classes: string])[] }) {
  return (
    <thead>
      <tr>
        {of.map((column) => {
          const [text, classes] = typeof column === 'string' ? [column] : column;
          return (
            <th key={text} scope="col" class={classes}>
              {text}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}
