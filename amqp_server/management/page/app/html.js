// What the views are written with: Preact, its hooks, and htm for templates without a build step.

import { Component, createContext, Fragment, h, render } from "../vendor/preact.js";
import {
  useCallback,
  useContext,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../vendor/preact-hooks.js";
import htm from "../vendor/htm.js";

// A value in a template becomes a text node or an attribute, never HTML.
const html = htm.bind(h);

export {
  Component, createContext, Fragment, html, render, useCallback, useContext, useEffect, useId,
  useLayoutEffect, useMemo, useReducer, useRef, useState,
};
