// What a recording's page carries, as it lies in the document: data as JSON, columns compressed.

function text(id: string): string {
  const element = document.getElementById(id);
  const found = element?.textContent ?? "";
  // The bytes are needed once; the document need not keep them.
  element?.remove();
  return found;
}

/** Data that stays in the document: small, and others may want to read it. */
export function json<T>(id: string): T | null {
  const found = document.getElementById(id)?.textContent;
  return found ? (JSON.parse(found) as T) : null;
}

/** Whether the browser can undo the compression (all since 2023). */
export function canInflate(): boolean {
  return typeof DecompressionStream === "function";
}

/** Bytes from a script element: base64 of raw deflate. */
export async function blob(id: string): Promise<Uint8Array> {
  const packed = fromBase64(text(id));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(coded: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, coded);
  const plain = atob(coded);
  const bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes;
}
