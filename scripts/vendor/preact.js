export { h, render, Fragment, createContext } from "preact";
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext, useId } from "preact/hooks";
export { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect } from "@preact/signals";
import { h } from "preact";
import htm from "htm";
export const html = htm.bind(h);
